use proptest::prelude::*;

use super::*;

fn frames() -> impl Strategy<Value = Vec<(u32, Frame)>> {
    let text = || proptest::option::of(".{0,40}");
    let frame = (".{1,40}", text(), text(), any::<u32>()).prop_map(|(function, system_name, file, line)| Frame {
        function,
        system_name,
        file,
        line,
    });
    proptest::collection::vec((any::<u32>(), frame), 1..9)
}

fn request() -> impl Strategy<Value = Request> {
    let companions = || (any::<bool>(), any::<bool>()).prop_map(|(debug, shared)| Companions { debug, shared });
    prop_oneof![
        (companions(), 0..=ADDRESSES_LIMIT).prop_map(|(companions, count)| Request::Name { companions, count }),
        (companions(), 0..=ADDRESSES_LIMIT).prop_map(|(companions, count)| Request::Functions { companions, count }),
        (companions(), 0..=ADDRESSES_LIMIT).prop_map(|(companions, count)| Request::Spans { companions, count }),
        proptest::collection::vec(any::<u64>(), 0..9).prop_map(Request::Addresses),
        ".{0,40}".prop_map(|name| Request::Find { name }),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let symbol = (any::<u64>(), any::<u64>()).prop_map(|(svma, size)| Symbol { svma, size });
    prop_oneof![
        Just(Reply::Ready),
        Just(Reply::NotElf),
        Just(Reply::Done),
        (any::<u32>(), ".{1,40}", any::<u32>()).prop_map(|(index, name, start)| {
            Reply::Functions(vec![(index, NamedCode { name, svmas: start.into()..u64::MAX })])
        }),
        frames().prop_map(Reply::Frames),
        proptest::option::of(proptest::sample::select(&UNNAMED[..])).prop_map(Reply::Named),
        proptest::option::of(symbol).prop_map(Reply::Found),
    ]
}

fn named(function: String) -> Frame {
    Frame { function, system_name: None, file: None, line: 0 }
}

/// What arrives of names.
fn carried(names: Names) -> Option<Names> {
    let mut gathering = Gathering::new(names.frames.len());
    for reply in replies(names) {
        let bytes = reply.to_bytes();
        assert!(bytes.len() <= MAX_MESSAGE, "{}", bytes.len());
        match Reply::from_bytes(&bytes)? {
            Reply::Frames(frames) => gathering.add(frames)?,
            Reply::Named(unnamed) => return Some(gathering.finish(unnamed)),
            other => panic!("{other:?}"),
        }
    }
    None
}

#[test]
fn names_of_any_size_arrive() {
    let frames = |count: usize, length: usize| vec![named("x".repeat(length)); count];
    let names = Names { frames: vec![frames(1, 3), frames(200, 16_000), Vec::new()], unnamed: Some(Unnamed::Stripped) };
    assert_eq!(carried(names.clone()), Some(names));
    let long = Names { frames: vec![frames(DEPTH_LIMIT + 9, TEXT_LIMIT + 9)], unnamed: None };
    let arrived = carried(long).expect("cut, not refused");
    assert_eq!(arrived.frames[0].len(), DEPTH_LIMIT + 1);
    assert_eq!(arrived.frames[0][0].function.len(), TEXT_LIMIT);
    assert_eq!(carried(Names::none(0, Unnamed::NoSymbol)), Some(Names::none(0, Unnamed::NoSymbol)));
}

#[test]
fn frames_of_no_address_out_of_order_or_without_end_are_refused() {
    let frame = || named("f".into());
    assert!(Gathering::new(2).add(vec![(0, frame()), (0, frame()), (1, frame())]).is_some());
    assert!(Gathering::new(2).add(vec![(2, frame())]).is_none());
    assert!(Gathering::new(2).add(vec![(1, frame()), (0, frame())]).is_none());
    assert!(Gathering::new(1).add(vec![(0, frame()); DEPTH_LIMIT + 1]).is_some());
    assert!(Gathering::new(1).add(vec![(0, frame()); DEPTH_LIMIT + 2]).is_none());
    assert_eq!(Reply::from_bytes(&Reply::Frames(Vec::new()).to_bytes()), None);
    let nameless = Reply::Frames(vec![(0, named(String::new()))]);
    assert_eq!(Reply::from_bytes(&nameless.to_bytes()), None);
}

#[test]
fn functions_of_any_number_arrive() {
    let function = |index: u64| NamedCode { name: "f".repeat(1 + index as usize % 50), svmas: index..index + 3 };
    let sent: Vec<Option<NamedCode>> = (0..9000).map(|index| (index % 3 > 0).then(|| function(index))).collect();
    let mut arrived = vec![None; sent.len()];
    for reply in function_replies(sent.clone()) {
        let bytes = reply.to_bytes();
        assert!(bytes.len() <= MAX_MESSAGE);
        match Reply::from_bytes(&bytes).expect("a message") {
            Reply::Functions(functions) => {
                functions.into_iter().for_each(|(index, function)| arrived[index as usize] = Some(function));
            }
            other => assert_eq!(other, Reply::Done),
        }
    }
    assert_eq!(arrived, sent);
}

#[test]
fn an_answer_that_leaves_addresses_out_says_why() {
    assert_eq!(Gathering::new(1).finish(None).unnamed, Some(Unnamed::NoSymbol));
    assert_eq!(Gathering::new(0).finish(Some(Unnamed::Stripped)).unnamed, None);
}

proptest! {
    #[test]
    fn messages_read_back(request in request(), reply in reply()) {
        prop_assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
        prop_assert_eq!(Reply::from_bytes(&reply.to_bytes()), Some(reply));
    }

    #[test]
    fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = (Request::from_bytes(&bytes), Reply::from_bytes(&bytes));
    }

    #[test]
    fn no_mutation_makes_the_readers_panic(
        reply in reply(), at: proptest::sample::Index, byte: u8, cut: proptest::sample::Index,
    ) {
        let mut bytes = reply.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(Reply::Frames(frames)) = Reply::from_bytes(&bytes) {
            let _ = Gathering::new(3).add(frames);
        }
        bytes.truncate(cut.index(bytes.len()));
        let _ = Reply::from_bytes(&bytes);
    }
}
