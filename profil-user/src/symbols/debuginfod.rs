//! Fetches debug files by build ID from the servers in DEBUGINFOD_URLS.
//!
//! The cache has the layout of elfutils' client, so that gdb and others find what was fetched here, and we what they
//! fetched.
//!
//! Source: debuginfod(8), debuginfod-client-config(7).

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::build_id::BuildId;

/// Largest file that is fetched, bytes.
const SIZE_LIMIT: u64 = 4 << 30;
/// How long a server may take to accept a connection, and to begin its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one fetch may take in all, unless DEBUGINFOD_TIMEOUT says otherwise.
const FETCH_TIMEOUT: Duration = Duration::from_secs(90);

/// A client of debuginfod servers.
#[derive(Debug)]
pub struct Debuginfod {
    /// Servers that have not failed so far.
    servers: Vec<String>,
    cache: PathBuf,
    /// What no server knows; asked once in a run.
    missing: HashSet<(BuildId, Artifact)>,
    agent: ureq::Agent,
}

/// Which file of a build is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Artifact {
    /// The one with debug information.
    DebugInfo,
    /// The one that was run.
    Executable,
}

impl Artifact {
    /// Its name in the requests and in the cache.
    fn name(self) -> &'static str {
        match self {
            Artifact::DebugInfo => "debuginfo",
            Artifact::Executable => "executable",
        }
    }
}

impl Debuginfod {
    /// The client that the environment asks for: DEBUGINFOD_URLS, DEBUGINFOD_CACHE_PATH, DEBUGINFOD_TIMEOUT (seconds).
    ///
    /// `None` when DEBUGINFOD_URLS is not set or empty: nothing is sent anywhere unless the user said where.
    pub fn from_env() -> Option<Debuginfod> {
        let urls = std::env::var("DEBUGINFOD_URLS").ok()?;
        let cache = match std::env::var_os("DEBUGINFOD_CACHE_PATH") {
            Some(path) => PathBuf::from(path),
            None => match std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
                Some(path) => PathBuf::from(path).join("debuginfod_client"),
                None => PathBuf::from(std::env::var_os("HOME")?).join(".cache/debuginfod_client"),
            },
        };
        let seconds = std::env::var("DEBUGINFOD_TIMEOUT").ok().and_then(|text| text.parse().ok());
        let timeout = seconds.filter(|seconds| *seconds > 0).map_or(FETCH_TIMEOUT, Duration::from_secs);
        Debuginfod::new(&urls, cache, timeout)
    }

    /// A client of the servers in a space-separated list of http and https URLs, which keeps what it fetched in `cache`.
    pub fn new(urls: &str, cache: PathBuf, timeout: Duration) -> Option<Debuginfod> {
        let servers: Vec<String> = urls
            .split_ascii_whitespace()
            .filter(|url| url.starts_with("http://") || url.starts_with("https://"))
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        if servers.is_empty() {
            return None;
        }
        let agent = ureq::Agent::config_builder()
            .timeout_resolve(Some(ANSWER_TIMEOUT))
            .timeout_connect(Some(ANSWER_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .timeout_global(Some(timeout))
            .user_agent(concat!("profil/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Some(Debuginfod { servers, cache, missing: HashSet::new(), agent })
    }

    /// A file of a build, from the cache or else from the first server that has it, and its path.
    ///
    /// A server that cannot be reached is not asked again: a profile has hundreds of files.
    pub fn fetch(&mut self, build_id: &BuildId, artifact: Artifact) -> Option<(File, PathBuf)> {
        let wanted = (build_id.clone(), artifact);
        if self.missing.contains(&wanted) {
            return None;
        }
        let directory = self.cache.join(build_id.to_string());
        let path = directory.join(artifact.name());
        // elfutils' client marks what no server knows by an empty file.
        if let Ok(file) = File::open(&path)
            && file.metadata().is_ok_and(|found| found.is_file() && found.len() > 0)
        {
            return Some((file, path));
        }
        let mut reachable = Vec::new();
        let mut found = None;
        for server in std::mem::take(&mut self.servers) {
            let answer = match found {
                Some(_) => Answer::Unknown,
                None => self.ask(&format!("{server}/buildid/{build_id}/{}", artifact.name()), &directory, &path),
            };
            match answer {
                Answer::Found(file) => found = Some(file),
                Answer::Unknown => {}
                Answer::Unreachable => continue,
            }
            reachable.push(server);
        }
        self.servers = reachable;
        if found.is_none() {
            self.missing.insert(wanted);
        }
        found.map(|file| (file, path))
    }

    fn ask(&self, url: &str, directory: &Path, path: &Path) -> Answer {
        match self.agent.get(url).call() {
            Ok(mut response) => {
                let body = response.body_mut().with_config().limit(SIZE_LIMIT).reader();
                match store(body, directory, path) {
                    Ok(file) => Answer::Found(file),
                    Err(_) => Answer::Unreachable,
                }
            }
            Err(ureq::Error::StatusCode(400..500)) => Answer::Unknown,
            Err(_) => Answer::Unreachable,
        }
    }
}

/// What a server said.
enum Answer {
    Found(File),
    Unknown,
    Unreachable,
}

/// Writes a fetched file beside its place and renames it, so that nobody ever sees half of it.
fn store(mut body: impl Read, directory: &Path, path: &Path) -> io::Result<File> {
    fs::create_dir_all(directory)?;
    let mut aside = tempfile::NamedTempFile::new_in(directory)?;
    io::copy(&mut body, aside.as_file_mut())?;
    aside.persist(path)?;
    File::open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::mpsc;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Answers each request with the next of the answers; returns the URL and the paths that were asked for.
    fn serve(answers: &'static [(&'static str, &'static str)]) -> (String, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("its address"));
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut request = [0; 4096];
                let length = stream.read(&mut request).expect("a request");
                let line = String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or_default().to_owned();
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                stream.write_all((head + body).as_bytes()).expect("an answer");
                sender.send(line).expect("the test is listening");
            }
        });
        (url, receiver)
    }

    fn build_id() -> BuildId {
        BuildId::from_hex("00112233445566778899").expect("a build ID")
    }

    #[test]
    fn a_fetched_file_is_cached_in_the_layout_of_elfutils() {
        let cache = tempfile::tempdir().expect("a directory");
        let (url, asked) = serve(&[("200 OK", "debug information")]);
        let mut client = Debuginfod::new(&url, cache.path().into(), TIMEOUT).expect("a server is named");
        for _ in 0..2 {
            let (mut file, path) = client.fetch(&build_id(), Artifact::DebugInfo).expect("the server has it");
            assert_eq!(path, cache.path().join("00112233445566778899/debuginfo"));
            let mut text = String::new();
            file.read_to_string(&mut text).expect("text");
            assert_eq!(text, "debug information");
        }
        assert_eq!(asked.recv().expect("one request"), "GET /buildid/00112233445566778899/debuginfo HTTP/1.1");
        assert!(asked.recv().is_err(), "the second fetch is from the cache");
        let left = fs::read_dir(cache.path().join("00112233445566778899")).expect("the directory").count();
        assert_eq!(left, 1, "nothing is left aside");
    }

    #[test]
    fn an_unknown_build_id_is_asked_for_once() {
        let cache = tempfile::tempdir().expect("a directory");
        let (url, asked) = serve(&[("404 Not Found", "")]);
        let mut client = Debuginfod::new(&url, cache.path().into(), TIMEOUT).expect("a server is named");
        assert!(client.fetch(&build_id(), Artifact::DebugInfo).is_none());
        assert!(client.fetch(&build_id(), Artifact::DebugInfo).is_none());
        assert_eq!(asked.iter().count(), 1);
    }

    #[test]
    fn a_server_that_fails_is_passed_over_and_not_asked_again() {
        let cache = tempfile::tempdir().expect("a directory");
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("its address")
        };
        let (good, _asked) = serve(&[("200 OK", "x")]);
        let urls = format!("http://{closed} ftp://elsewhere {good}");
        let mut client = Debuginfod::new(&urls, cache.path().into(), TIMEOUT).expect("servers are named");
        assert!(client.fetch(&build_id(), Artifact::DebugInfo).is_some());
        assert_eq!(client.servers, [good.trim_end_matches('/')]);
    }

    #[test]
    fn without_a_server_there_is_no_client() {
        assert!(Debuginfod::new("  ", PathBuf::new(), TIMEOUT).is_none());
        assert!(Debuginfod::new("file:///etc", PathBuf::new(), TIMEOUT).is_none());
    }
}
