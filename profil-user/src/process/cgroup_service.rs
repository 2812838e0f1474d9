//! From the control groups of a process to the service that it belongs to.

/// The service of a process, by the text of its `/proc/PID/cgroup`: the pod (`podUID`), else the container (its ID), else
/// the systemd unit. `None` where there is none of them: in a login session, in the root group, and where a container
/// manager left its ID out.
///
/// The unified hierarchy is asked first, then systemd's own, then the others. What a group is called by:
///
/// | group | service |
/// |---|---|
/// | `/kubepods/burstable/pod1234-ab/0123...` | `pod1234-ab` |
/// | `/kubepods.slice/kubepods-pod1234_ab.slice/cri-containerd-0123....scope` | `pod1234-ab` |
/// | `/system.slice/docker-0123....scope`, `/docker/0123...` | `0123...` |
/// | `/machine.slice/libpod-0123....scope` | `0123...` |
/// | `/lxc.payload.NAME`, `/lxc/NAME`, `/machine.slice/machine-NAME.scope` | `NAME` |
/// | `/system.slice/nginx.service` | `nginx.service` |
/// | `/user.slice/user-1000.slice/session-3.scope` | none |
///
/// # Source
/// cgroups(7); systemd's `docs/CGROUP_DELEGATION.md`; the kubelet's cgroup drivers.
pub fn service_of(text: &str) -> Option<String> {
    let mut hierarchies: Vec<(u8, &str)> = text.lines().filter_map(hierarchy).collect();
    hierarchies.sort_by_key(|(rank, _)| *rank);
    hierarchies.into_iter().find_map(|(_, path)| service_of_group(path))
}

/// Rank and path of a hierarchy, from its line `ID:CONTROLLERS:PATH`.
fn hierarchy(line: &str) -> Option<(u8, &str)> {
    let (id, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let rank = match (id, controllers) {
        ("0", "") => 0,
        (_, "name=systemd") => 1,
        _ => 2,
    };
    // So the kernel marks a group that was removed under a process that has ended.
    Some((rank, path.strip_suffix(" (deleted)").unwrap_or(path)))
}

fn service_of_group(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    let innermost = || parts.iter().rev();
    if let Some(pod) = innermost().find_map(|part| pod(part)) {
        return Some(pod);
    }
    let pairs = parts.windows(2).rev();
    let container = innermost().find_map(|part| container(part)).or_else(|| {
        pairs.into_iter().find_map(|pair| match pair {
            ["docker" | "containerd" | "garden" | "libpod_parent" | "actions_job", id] if is_container_id(id) => {
                Some(*id)
            }
            ["lxc", name] => Some(*name),
            _ => None,
        })
    });
    let container = container.or_else(|| innermost().next().copied().filter(|part| is_container_id(part)));
    container.or_else(|| innermost().copied().find(|part| is_unit(part))).map(str::to_owned)
}

/// `podUID` of `podUID` and of `kubepods-burstable-podUID.slice`, in which dashes of the UID are underscores.
fn pod(part: &str) -> Option<String> {
    let uid = match part.strip_suffix(".slice") {
        Some(slice) => slice.strip_prefix("kubepods")?.rsplit_once("-pod")?.1,
        None => part.strip_prefix("pod")?,
    };
    // Shorter ones are words that begin so: static pods have 32 digits, others 36.
    let is_uid = uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || b"-_".contains(&byte));
    is_uid.then(|| format!("pod{}", uid.replace('_', "-")))
}

/// The container of a group that a container manager made for it alone.
fn container(part: &str) -> Option<&str> {
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(name).filter(|name| !name.is_empty());
    }
    let scope = part.strip_suffix(".scope")?;
    if let Some(name) = scope.strip_prefix("machine-") {
        return Some(name).filter(|name| !name.is_empty());
    }
    let (_, id) = scope.rsplit_once('-')?;
    is_container_id(id).then_some(id)
}

/// IDs are SHA-256 sums.
fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Scopes that name no service: systemd itself, login sessions, and containers without an ID.
const NAMELESS_SCOPES: [&str; 7] = ["init.", "session-", "docker-", "cri-containerd-", "crio-", "libpod-", "machine-"];

/// A unit that someone gave a name.
fn is_unit(part: &str) -> bool {
    let is_scope = || part.ends_with(".scope") && !NAMELESS_SCOPES.iter().any(|scope| part.starts_with(scope));
    // `.service` alone names nothing.
    part.len() > ".service".len() && part.ends_with(".service") || is_scope()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

    fn of(path: &str) -> Option<String> {
        service_of(&format!("0::{path}\n"))
    }

    #[test]
    fn units_of_systemd() {
        assert_eq!(of("/system.slice/nginx.service").as_deref(), Some("nginx.service"));
        assert_eq!(of("/system.slice/system-getty.slice/getty@tty1.service").as_deref(), Some("getty@tty1.service"));
        assert_eq!(of("/system.slice/nginx.service (deleted)").as_deref(), Some("nginx.service"));
        assert_eq!(of("/system.slice/nginx.service/workers").as_deref(), Some("nginx.service"));
        let app = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-42.scope";
        assert_eq!(of(app).as_deref(), Some("app-firefox-42.scope"));
    }

    #[test]
    fn containers() {
        for path in [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/system.slice/containerd.service/docker/{ID}"),
            format!("/default/{ID}"),
            format!("/ecs/task-name/{ID}"),
        ] {
            assert_eq!(of(&path).as_deref(), Some(ID), "{path}");
        }
        assert_eq!(of("/lxc.payload.web/init.scope").as_deref(), Some("web"));
        assert_eq!(of("/lxc/web/x").as_deref(), Some("web"));
        assert_eq!(of("/machine.slice/machine-debian.scope").as_deref(), Some("debian"));
    }

    #[test]
    fn pods_are_before_their_containers() {
        let underscored = UID.replace('-', "_");
        for path in [
            format!("/kubepods/burstable/pod{UID}/{ID}"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{underscored}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubelet.slice/kubelet-kubepods.slice/kubepods-pod{underscored}.slice/crio-{ID}.scope"),
            format!("/system.slice/k3s.service/kubepods/besteffort/pod{UID}/{ID}"),
        ] {
            assert_eq!(of(&path), Some(format!("pod{UID}")), "{path}");
        }
    }

    #[test]
    fn what_names_no_service_gives_none() {
        for path in [
            "/",
            "/docker/",
            "/docker",
            "/docker/buildkit",
            "/..",
            "/init.scope",
            "/user.slice/user-0.slice/session-3.scope",
            "/user.slice",
            "/podium",
            "/.service",
            "/lxc/",
            "/system.slice/docker-.scope/",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
        assert_eq!(service_of(""), None);
        assert_eq!(service_of("no colon\n0:\n"), None);
    }

    #[test]
    fn hierarchies_of_version_1_are_asked_systemds_own_first() {
        let text = format!("9:name=systemd:/system.slice/a.service\n4:memory:/docker/{ID}\n0::/\n");
        assert_eq!(service_of(&text).as_deref(), Some("a.service"));
        let text = format!("11:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n");
        assert_eq!(service_of(&text).as_deref(), Some(ID));
        let text = "5:memory:/batch\n1:name=systemd:/\n0::/system.slice/b.service\n";
        assert_eq!(service_of(text).as_deref(), Some("b.service"));
        assert_eq!(service_of("5:memory:/batch:with:colons\n1:name=systemd:/\n"), None);
    }
}
