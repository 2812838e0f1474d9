use proptest::prelude::*;

use super::*;

fn plan() -> impl Strategy<Value = BufferPlan> {
    let width = prop_oneof![Just(Width::Two), Just(Width::Four)];
    let at_limit = prop_oneof![Just(AtLimit::Wrap), Just(AtLimit::Saturate)];
    (any::<u64>(), any::<u32>(), any::<u32>(), width, at_limit)
        .prop_map(|(start, nbins, first_bin, width, at_limit)| BufferPlan { start, nbins, first_bin, width, at_limit })
}

fn request() -> impl Strategy<Value = Request> {
    let plans = || proptest::collection::vec(plan(), 0..9);
    let run = (any::<u32>(), proptest::collection::vec(any::<u32>(), 0..9));
    let runs = proptest::collection::vec(run.prop_map(|(first, added)| Run { first, added }), 0..9);
    let client = || any::<u64>().prop_map(ClientId);
    let devices = proptest::collection::btree_set(any::<Device>(), 0..9);
    prop_oneof![
        (client(), any::<u32>(), plans()).prop_map(|(client, tgid, plans)| Request::Open { client, tgid, plans }),
        (client(), any::<u32>(), plans(), devices).prop_map(|(client, tgid, plans, devices)| Request::Resume {
            client,
            tgid,
            plans,
            devices
        }),
        (client(), runs).prop_map(|(client, runs)| Request::Flush { client, runs }),
        client().prop_map(|client| Request::Close { client }),
    ]
}

fn reads_back(reply: &Reply) {
    let read = Reply::from_bytes(&reply.to_bytes(), 7);
    assert_eq!(format!("{read:?}"), format!("{:?}", Some(reply)));
}

#[test]
fn replies_read_back() {
    reads_back(&Reply::Ready);
    reads_back(&Reply::Done);
    reads_back(&Reply::Opened { devices: BTreeSet::from([(0, 39), (254, 0)]) });
    reads_back(&Reply::Flushed { written: 1 << 40, loss: None });
    for loss in LOSSES {
        reads_back(&Reply::Flushed { written: 3, loss: Some(loss) });
    }
    let (start, end) = (0x1000, u64::MAX);
    let source = || io::Error::from_raw_os_error(libc::EACCES);
    for bad in [
        BadBuffer::Unmapped { start, end },
        BadBuffer::ReadOnly { start, end },
        BadBuffer::Shared { start, end },
        BadBuffer::Userfaultfd { start, end },
        BadBuffer::Fuse { start, end },
        BadBuffer::UnknownFile { start, end },
        BadBuffer::Gone,
        BadBuffer::Wraps { start, bytes: 9 },
        BadBuffer::Maps(AddressSpaceError::Maps { tgid: 7, source: source() }),
        BadBuffer::Hazards { source: source() },
    ] {
        reads_back(&Reply::Refused(bad));
    }
}

#[test]
fn the_largest_requests_fit_into_a_message() {
    let plan = BufferPlan { start: 0, nbins: 1, first_bin: 0, width: Width::Two, at_limit: AtLimit::Wrap };
    let devices = (0..MAX_DEVICES as u32).map(|minor| (0, minor)).collect();
    let plans = vec![plan; MAX_BUFFERS];
    let resume = Request::Resume { client: ClientId(1), tgid: 1, plans, devices };
    assert!(resume.to_bytes().len() <= MAX_MESSAGE);
    let runs = vec![Run { first: 0, added: vec![1; MAX_WORDS - 2] }];
    assert!(Request::Flush { client: ClientId(1), runs }.to_bytes().len() <= MAX_MESSAGE);
}

proptest! {
    #[test]
    fn requests_read_back(request in request()) {
        prop_assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
    }

    #[test]
    fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Request::from_bytes(&bytes);
        let _ = Reply::from_bytes(&bytes, 1);
    }

    #[test]
    fn no_mutation_makes_the_readers_panic(
        request in request(), at: proptest::sample::Index, byte: u8, cut: proptest::sample::Index,
    ) {
        let mut bytes = request.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Request::from_bytes(&bytes);
        let _ = Reply::from_bytes(&bytes, 1);
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(Request::from_bytes(&bytes).is_none_or(|shorter| shorter != request));
    }
}
