//! /proc/PID/stat.

/// What the kernel says of a process or thread in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its id, as the reader's PID namespace numbers it.
    pub pid: u32,
    /// Its name: at most 15 bytes, or more for kernel workers. Any byte but NUL may be in it.
    pub comm: String,
    /// State, as one letter of proc(5): R, S, D, T, t, Z, X, I.
    pub state: char,
    /// `PF_*` flags of the task.
    pub flags: u32,
    /// Threads of the process.
    pub threads: u32,
    /// When it started, clock ticks (1/100 s) after the boot.
    pub start_ticks: u64,
}

/// `PF_KTHREAD` of include/linux/sched.h.
const KERNEL_THREAD: u32 = 0x0020_0000;

impl Stat {
    /// Reads a line of /proc/PID/stat; `None` when it is not one.
    ///
    /// The name stands in parentheses and may hold spaces, parentheses and newlines itself, so it ends at the last
    /// closing one.
    ///
    /// # Source
    /// proc_pid_stat(5)
    pub fn parse(line: &[u8]) -> Option<Stat> {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')').filter(|close| *close > open)?;
        let pid = std::str::from_utf8(&line[..open]).ok()?.trim().parse().ok()?;
        let comm = String::from_utf8_lossy(&line[open + 1..close]).into_owned();
        // The first of these is field 3 of the manual page.
        let fields: Vec<&str> = std::str::from_utf8(&line[close + 1..]).ok()?.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Stat {
            pid,
            comm,
            state: field(3)?.chars().next()?,
            flags: field(9)?.parse().ok()?,
            threads: field(20)?.parse().ok()?,
            start_ticks: field(22)?.parse().ok()?,
        })
    }

    /// Whether it is a thread of the kernel, which has no user mode.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Whether it has ended: a zombie, or a main thread whose other threads go on.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REST: &str = "S 1 4242 4242 0 -1 4194560 103 0 0 0 7 3 0 0 20 0 5 0 987654 3051520 426 18446744073709551615";

    #[test]
    fn hostile_names_do_not_shift_the_fields() {
        for comm in ["sleep", "a b", "a) Z 1 (b", ")", "(", "", "x\ny", "((((", ") R 0 0"] {
            let stat = Stat::parse(format!("4242 ({comm}) {REST}\n").as_bytes()).expect("a whole line");
            let expected = Stat {
                pid: 4242,
                comm: comm.to_owned(),
                state: 'S',
                flags: 4_194_560,
                threads: 5,
                start_ticks: 987_654,
            };
            assert_eq!(stat, expected);
        }
    }

    #[test]
    fn names_that_are_no_text_are_kept_readable() {
        let line = [b"7 (\xff\xfe) ".as_slice(), REST.as_bytes()].concat();
        assert_eq!(Stat::parse(&line).map(|stat| stat.comm).as_deref(), Some("\u{fffd}\u{fffd}"));
    }

    #[test]
    fn kernel_threads_are_known_by_their_flag() {
        let line = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0";
        assert!(Stat::parse(line.as_bytes()).is_some_and(|stat| stat.is_kernel_thread()));
    }

    #[test]
    fn lines_cut_short_are_refused() {
        let line = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5";
        assert!(Stat::parse(line.as_bytes()).is_some());
        assert_eq!(Stat::parse(&line.as_bytes()[..line.len() - 2]), None);
        assert_eq!(Stat::parse(b""), None);
        assert_eq!(Stat::parse(b")("), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Stat::parse(&bytes);
        }

        #[test]
        fn any_name_leaves_the_start_time_alone(comm in "[^\\x00]{0,15}") {
            let stat = Stat::parse(format!("1 ({comm}) {REST}").as_bytes());
            prop_assert_eq!(stat.map(|stat| (stat.comm, stat.start_ticks)), Some((comm, 987_654)));
        }
    }
}
