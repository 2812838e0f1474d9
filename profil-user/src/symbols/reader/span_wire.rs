//! Spans of source in messages: the names of a message once, and then the spans.

use std::collections::HashMap;
use std::sync::Arc;

use super::wire::{self, MAX_MESSAGE, Reply, TEXT_LIMIT, number, text, wide};
use crate::symbols::dwarf::DEPTH_LIMIT;
use crate::symbols::source_spans::{Site, Span};

/// Bytes of a span without its sites: addresses, whether it is an entry, and their number.
const SPAN_BYTES: usize = 8 + 8 + 4 + 4;
/// Bytes of a site: the number of its function, line and discriminator.
const SITE_BYTES: usize = 3 * 4;

/// The messages that carry spans, the last one included.
pub fn replies(spans: Vec<Span>) -> impl Iterator<Item = Reply> {
    let is_short = |span: &Span| {
        let names = span.path.iter().all(|site| site.function.len() <= TEXT_LIMIT);
        // A span is one message at most.
        let bytes: usize = span.path.iter().map(|site| SITE_BYTES + 4 + site.function.len()).sum();
        names && span.path.len() <= DEPTH_LIMIT && 16 + SPAN_BYTES + bytes <= MAX_MESSAGE
    };
    let mut spans = spans.into_iter().filter(is_short).peekable();
    let mut is_over = false;
    std::iter::from_fn(move || {
        let (mut message, mut names, mut room) = (Vec::new(), HashMap::new(), MAX_MESSAGE - 16);
        while let Some(span) = spans.next_if(|span| {
            let mut bytes = SPAN_BYTES + SITE_BYTES * span.path.len();
            for site in &span.path {
                if names.insert(Arc::clone(&site.function), ()).is_none() {
                    bytes += 4 + site.function.len();
                }
            }
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        }) {
            message.push(span);
        }
        if !message.is_empty() {
            return Some(Reply::Spans(message));
        }
        (!std::mem::replace(&mut is_over, true)).then_some(Reply::Done)
    })
}

/// Writes spans.
pub(super) fn put(bytes: &mut Vec<u8>, spans: &[Span]) {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut names = Vec::new();
    for site in spans.iter().flat_map(|span| &span.path) {
        numbers.entry(&site.function).or_insert_with(|| {
            names.push(&*site.function);
            names.len() as u32 - 1
        });
    }
    wire::put(bytes, names.len() as u32);
    names.iter().for_each(|name| wire::put_text(bytes, Some(name)));
    for Span { addresses, path, is_entry } in spans {
        bytes.extend(addresses.start.to_ne_bytes());
        bytes.extend(addresses.end.to_ne_bytes());
        wire::put(bytes, u32::from(*is_entry));
        wire::put(bytes, path.len() as u32);
        for Site { function, line_offset, discriminator } in path {
            for number in [numbers[&**function], u32::from(*line_offset), *discriminator] {
                wire::put(bytes, number);
            }
        }
    }
}

/// Reads spans; `None` when they are none.
pub(super) fn spans(rest: &mut &[u8]) -> Option<Vec<Span>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for _ in 0..number(rest)? {
        names.push(text(rest)??.into());
    }
    let mut spans = Vec::new();
    while !rest.is_empty() {
        let (start, end) = (wide(rest)?, wide(rest)?);
        let is_entry = match number(rest)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let length = number(rest)? as usize;
        if start >= end || length > DEPTH_LIMIT || length == 0 || rest.len() / SITE_BYTES < length {
            return None;
        }
        let mut site = || {
            let function = Arc::clone(names.get(number(rest)? as usize)?);
            Some(Site { function, line_offset: number(rest)?.try_into().ok()?, discriminator: number(rest)? })
        };
        let path = (0..length).map(|_| site()).collect::<Option<Vec<Site>>>()?;
        spans.push(Span { addresses: start..end, path, is_entry });
    }
    (!spans.is_empty()).then_some(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_any_number_arrive() {
        let site = |index: u32| Site {
            function: format!("function_{}", index % 1000).into(),
            line_offset: index as u16,
            discriminator: index,
        };
        let span = |index: u32| Span {
            addresses: u64::from(index)..u64::from(index) + 7,
            path: (0..1 + index % 5).map(|depth| site(index + depth)).collect(),
            is_entry: index.is_multiple_of(3),
        };
        let sent: Vec<Span> = (0..20_000).map(span).collect();
        let (mut arrived, mut messages) = (Vec::new(), 0);
        for reply in replies(sent.clone()) {
            let bytes = reply.to_bytes();
            assert!(bytes.len() <= MAX_MESSAGE, "{}", bytes.len());
            messages += 1;
            match Reply::from_bytes(&bytes).expect("a message") {
                Reply::Spans(spans) => arrived.extend(spans),
                other => assert_eq!(other, Reply::Done),
            }
        }
        assert!(messages > 10 && arrived == sent);
    }

    #[test]
    fn spans_that_are_none_are_refused() {
        let one = Span {
            addresses: 1..2,
            path: vec![Site { function: "f".into(), line_offset: 1, discriminator: 0 }],
            is_entry: false,
        };
        let reads = |spans: &[Span]| Reply::from_bytes(&Reply::Spans(spans.to_vec()).to_bytes()).is_some();
        assert!(reads(std::slice::from_ref(&one)));
        assert!(!reads(&[]));
        assert!(!reads(&[Span { path: Vec::new(), ..one.clone() }]));
        assert!(!reads(&[Span { addresses: 2..2, ..one.clone() }]));
        assert!(!reads(&[Span { path: vec![one.path[0].clone(); DEPTH_LIMIT + 1], ..one }]));
    }
}
