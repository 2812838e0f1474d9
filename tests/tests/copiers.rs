//! Copiers of the service: what their clients may do, and whom it harms.

mod support_attach;
mod support_copiers;

use profil_tests::fuse;
use profil_tests::{Scratch, feature};
use profil_user::copier::{BufferPlan, ClientId, LostClient, OpenError};
use profil_user::sink::target::{AtLimit, BadBuffer, Loss, Width};
use support_attach::{profil_or_skip, signal, skip, state, until};
use support_copiers::{Service, Target, runtime};

/// Clients of one user, and of another.
const UID: u32 = 65_533;
const OTHER: u32 = 65_532;

const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);
const C: ClientId = ClientId(3);

/// What each test begins with; `None` when it is skipped.
struct Stage {
    profil: std::path::PathBuf,
    scratch: Scratch,
    /// The client.
    program: std::path::PathBuf,
}

fn stage(test: &str) -> Option<Stage> {
    let profil = profil_or_skip(test)?;
    let scratch = Scratch::new();
    let program = scratch.build_as("copier_client", "client", &["-pthread"]);
    Some(Stage { profil, scratch, program })
}

#[test]
fn a_client_that_keeps_its_maps_busy_is_lost_and_harms_no_other() {
    let name = "a_client_that_keeps_its_maps_busy_is_lost_and_harms_no_other";
    let Some(Stage { profil, program, scratch }) = stage(name) else { return };
    let Some(fuse) = feature::fuse(name, &scratch) else { return };
    let mut parker = Target::start(&program, UID, &fuse.file());
    let neighbour = Target::start(&program, UID, &fuse.file());
    let stranger = Target::start(&program, OTHER, &fuse.file());
    runtime().block_on(async {
        let mut service = Service::new(&profil);
        for (client, target) in [(A, &parker), (B, &neighbour), (C, &stranger)] {
            service.open(client, target, target.whole()).await.expect("plain memory");
        }
        parker.obey('l');
        let parked = service.add(A, 0, &[1]);
        let behind: Vec<_> = (0..100).map(|_| service.add(B, 3, &[1, 2])).collect();
        service.add(C, 0, &[7]).await.expect("answered");
        assert!(service.lost.try_recv().is_err(), "a stranger waited for the parked copier");
        assert_eq!(stranger.counters(0, 2), [7, 0]);
        parked.await.expect("answered");
        for done in behind {
            done.await.expect("answered");
        }
        assert_eq!(service.lost.try_recv(), Ok(LostClient { client: A, loss: Loss::Stalled }));
        assert_eq!(neighbour.counters(2, 4), [0, 100, 200, 0]);
        // It stays lost.
        service.add(A, 0, &[1]).await.expect("answered");
        assert!(service.lost.try_recv().is_err());
        service.end().await;
    });
    fuse.release();
    assert_eq!(parker.counters(0, 1), [0]);
}

#[test]
fn a_killed_copier_loses_nothing_but_the_job_on_its_way() {
    let name = "a_killed_copier_loses_nothing_but_the_job_on_its_way";
    let Some(Stage { profil, program, scratch: _scratch }) = stage(name) else { return };
    let (target, neighbour) = (Target::start(&program, UID, "-".as_ref()), Target::start(&program, UID, "-".as_ref()));
    runtime().block_on(async {
        let mut service = Service::new(&profil);
        service.open(A, &target, target.whole()).await.expect("plain memory");
        service.open(B, &neighbour, neighbour.whole()).await.expect("plain memory");
        // Nothing is on its way.
        for _ in 0..5 {
            let copier = service.copier(UID);
            signal(copier, libc::SIGKILL);
            until("the copier has ended", || !matches!(state(copier), b'R' | b'S' | b'D'));
            service.add(A, 0, &[1]).await.expect("answered");
        }
        assert_eq!(target.counters(0, 1), [5]);
        // Something may be.
        let jobs: Vec<_> = (0..2000).map(|_| (service.add(A, 9, &[1]), service.add(B, 9, &[1]))).collect();
        let mut kills = 0;
        for (index, (a, b)) in jobs.into_iter().enumerate() {
            a.await.expect("answered");
            b.await.expect("answered");
            if index % 200 == 0 {
                signal(service.copier(UID), libc::SIGKILL);
                kills += 1;
            }
        }
        let written = target.counters(9, 1)[0] + neighbour.counters(9, 1)[0];
        assert!((4000 - kills..=4000).contains(&written), "{written} of 4000 after {kills} kills");
        assert!(service.lost.try_recv().is_err());
        service.end().await;
    });
}

#[test]
fn a_copier_that_is_stopped_is_replaced() {
    let name = "a_copier_that_is_stopped_is_replaced";
    let Some(Stage { profil, program, scratch: _scratch }) = stage(name) else { return };
    let (target, neighbour) = (Target::start(&program, UID, "-".as_ref()), Target::start(&program, UID, "-".as_ref()));
    runtime().block_on(async {
        let mut service = Service::new(&profil);
        service.open(A, &target, target.whole()).await.expect("plain memory");
        service.open(B, &neighbour, neighbour.whole()).await.expect("plain memory");
        signal(service.copier(UID), libc::SIGSTOP);
        let (first, second) = (service.add(A, 0, &[1]), service.add(B, 0, &[1]));
        first.await.expect("answered");
        second.await.expect("answered");
        assert_eq!(service.lost.try_recv(), Ok(LostClient { client: A, loss: Loss::Stalled }));
        assert_eq!((target.counters(0, 1), neighbour.counters(0, 1)), (vec![0], vec![1]));
        service.end().await;
    });
}

#[test]
fn a_copier_has_the_uid_of_its_clients_and_no_privileges() {
    let name = "a_copier_has_the_uid_of_its_clients_and_no_privileges";
    let Some(Stage { profil, program, scratch: _scratch }) = stage(name) else { return };
    for uid in [UID, 0] {
        let target = Target::start(&program, uid, "-".as_ref());
        runtime().block_on(async {
            let mut service = Service::new(&profil);
            service.open(A, &target, target.whole()).await.expect("plain memory");
            let copier = service.copier(uid);
            let status = std::fs::read_to_string(format!("/proc/{copier}/status")).expect("the copier is there");
            let field = |name: &str| -> Vec<&str> {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field of every status");
                line.split_ascii_whitespace().collect()
            };
            assert_eq!(field("Uid:"), [uid.to_string().as_str(); 4]);
            assert_eq!(field("Gid:"), ["65534"; 4]);
            assert_eq!(field("Groups:"), [""; 0]);
            for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
                assert_eq!(field(set), ["0000000000000000"], "{set}");
            }
            assert_eq!(field("NoNewPrivs:"), ["1"]);
            // Standard streams, memory and maps; smaps and mountinfo are closed after the check.
            let open = std::fs::read_dir(format!("/proc/{copier}/fd")).expect("root may look").count();
            assert_eq!(open, 3 + 2);
            service.add(A, 0, &[1]).await.expect("answered");
            assert_eq!(target.counters(0, 1), [1]);
            service.end().await;
        });
    }
}

#[test]
fn a_run_goes_to_all_buffers_that_it_spans() {
    let name = "a_run_goes_to_all_buffers_that_it_spans";
    let Some(Stage { profil, program, scratch: _scratch }) = stage(name) else { return };
    let target = Target::start(&program, UID, "-".as_ref());
    runtime().block_on(async {
        let mut service = Service::new(&profil);
        // Buffers of one bin, in the order of bins from back to front.
        let plan = |index: u32| BufferPlan {
            start: target.buffer + u64::from(100 - index) * 4,
            nbins: 1,
            first_bin: index,
            width: Width::Two,
            at_limit: AtLimit::Saturate,
        };
        service.open(A, &target, (0..100).map(plan).collect()).await.expect("plain memory");
        let counts: Vec<u32> = (1..=100).collect();
        service.add(A, 0, &counts).await.expect("answered");
        service.add(A, 99, &[70_000, 1]).await.expect("answered");
        let found = target.counters(0, 202);
        for index in 0..100 {
            let expected = if index == 99 { u32::from(u16::MAX) } else { index + 1 };
            assert_eq!(found[(100 - index as usize) * 2], expected, "bin {index}");
        }
        assert!(found.iter().skip(1).step_by(2).all(|between| *between == 0));
        service.end().await;
    });
}

#[test]
fn a_flush_larger_than_a_message_is_written_whole() {
    let name = "a_flush_larger_than_a_message_is_written_whole";
    let Some(Stage { profil, program, scratch: _scratch }) = stage(name) else { return };
    let target = Target::start(&program, UID, "-".as_ref());
    runtime().block_on(async {
        let mut service = Service::new(&profil);
        service.open(A, &target, target.whole()).await.expect("plain memory");
        let counts: Vec<u32> = (0..target.bins()).map(|bin| bin % 1000 + 1).collect();
        service.add(A, 0, &counts).await.expect("answered");
        assert_eq!(target.counters(0, target.bins()), counts);
        service.end().await;
    });
}

#[test]
fn buffers_that_user_space_serves_are_refused() {
    let name = "buffers_that_user_space_serves_are_refused";
    let Some(Stage { profil, program, scratch }) = stage(name) else { return };
    let Some(fuse) = feature::fuse(name, &scratch) else { return };
    runtime().block_on(async {
        let mut service = Service::new(&profil);
        let mut target = Target::start(&program, UID, &fuse.file());
        target.obey('o');
        let opened = service.open(A, &target, target.whole()).await;
        assert!(matches!(opened, Err(OpenError::Buffer(BadBuffer::Fuse { .. }))), "{opened:?}");
        // Only root gets a userfaultfd that the kernel heeds.
        let mut target = Target::start(&program, 0, "-".as_ref());
        target.obey('u');
        let opened = service.open(B, &target, target.whole()).await;
        assert!(matches!(opened, Err(OpenError::Buffer(BadBuffer::Userfaultfd { .. }))), "{opened:?}");
        // One that is mounted nowhere is not known for what it is.
        let mut target = Target::start(&program, UID, &fuse.file());
        target.obey('o');
        fuse.detach();
        let opened = service.open(C, &target, target.whole()).await;
        assert!(matches!(opened, Err(OpenError::Buffer(BadBuffer::UnknownFile { .. }))), "{opened:?}");
        service.end().await;
    });
}

#[test]
fn buffers_that_user_space_serves_later_take_no_more() {
    let name = "buffers_that_user_space_serves_later_take_no_more";
    let Some(Stage { profil, program, scratch }) = stage(name) else { return };
    let Some(fuse) = feature::fuse(name, &scratch) else { return };
    let mut mapper = Target::start(&program, UID, &fuse.file());
    let mut faulter = Target::start(&program, 0, "-".as_ref());
    runtime().block_on(async {
        let mut service = Service::new(&profil);
        service.open(A, &mapper, mapper.whole()).await.expect("plain memory");
        service.open(B, &faulter, faulter.whole()).await.expect("plain memory");
        mapper.obey('o');
        faulter.obey('u');
        service.add(A, 0, &[1]).await.expect("answered");
        assert_eq!(service.lost.try_recv(), Ok(LostClient { client: A, loss: Loss::Foreign }));
        service.add(B, 0, &[1]).await.expect("answered");
        assert_eq!(service.lost.try_recv(), Ok(LostClient { client: B, loss: Loss::Refused }));
        service.end().await;
    });
}

/// Check that copiers that not even SIGKILL ends are few, and belong to one user.
#[test]
fn a_user_who_parks_copiers_for_good_gets_no_more() {
    let name = "a_user_who_parks_copiers_for_good_gets_no_more";
    let Some(Stage { profil, program, scratch }) = stage(name) else { return };
    let Some(fuse) = feature::fuse(name, &scratch) else { return };
    let over = scratch.path("overlay");
    let Some(file) = fuse::overlay(&scratch.path("fuse"), &over) else {
        skip(name, "cannot mount an overlay over FUSE");
        return;
    };
    runtime().block_on(async {
        let mut service = Service::new(&profil);
        let mut targets = Vec::new();
        let refused = loop {
            let client = ClientId(targets.len() as u64);
            assert!(client.0 < 10, "no limit");
            let mut target = Target::start(&program, UID, &file);
            target.obey('o');
            let opened = service.open(client, &target, target.whole()).await;
            targets.push(target);
            if let Err(refused) = opened {
                break refused;
            }
            // A page of its own for each.
            service.add(client, client.0 as u32 * 2048, &[1]).await.expect("answered");
            assert_eq!(service.lost.try_recv(), Ok(LostClient { client, loss: Loss::Stalled }));
        };
        assert!(matches!(refused, OpenError::Parked { uid: UID }), "{refused:?}");
        assert_eq!(targets.len(), 5);
        let stranger = Target::start(&program, OTHER, "-".as_ref());
        service.open(ClientId(100), &stranger, stranger.whole()).await.expect("plain memory");
        service.add(ClientId(100), 0, &[3]).await.expect("answered");
        assert_eq!(stranger.counters(0, 1), [3]);
        // When they end, there is room again.
        fuse.release();
        let honest = Target::start(&program, UID, "-".as_ref());
        service.open(ClientId(101), &honest, honest.whole()).await.expect("plain memory");
        service.end().await;
    });
    fuse::unmount(&over);
}
