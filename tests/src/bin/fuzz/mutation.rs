//! Inputs that are nearly right.

/// Numbers at which arithmetic goes wrong.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    0xff,
    0xffff,
    0x1_0000,
    0x1_0001,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff,
    0x8000_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// What numbers, lines and mangled names are made of.
const LETTERS: &[u8] = b"0123456789abcdefx -:/\n\0_ZRNSt;()[]+.\\\xff";

/// Longest input, bytes.
const LONGEST: usize = 1 << 14;

/// Makes inputs out of good ones.
pub struct Mutation<'s> {
    random: fastrand::Rng,
    seeds: &'s [Vec<u8>],
}

impl<'s> Mutation<'s> {
    /// Mutations of `seeds`, of which there is at least one; the same for the same number.
    pub fn new(seed: u64, seeds: &'s [Vec<u8>]) -> Mutation<'s> {
        Mutation { random: fastrand::Rng::with_seed(seed), seeds }
    }

    /// The next input.
    pub fn next(&mut self) -> Vec<u8> {
        let mut input = self.seed().to_vec();
        // Few changes most of the time: what is wrong everywhere is refused at the first field.
        for _ in 0..=self.random.u32(0..8) * self.random.u32(0..2) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn seed(&mut self) -> &'s [u8] {
        let index = self.random.usize(..self.seeds.len());
        &self.seeds[index]
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let random = &mut self.random;
        let at = random.usize(..=input.len());
        let length = random.usize(..=(input.len() - at).min(64));
        match random.u32(..9) {
            0 => input.truncate(at),
            1 => input.insert(at, random.u8(..)),
            2 => drop(input.drain(at..at + length)),
            3 => {
                let copy = input[at..at + length].to_vec();
                let to = random.usize(..=input.len());
                drop(input.splice(to..to, copy));
            }
            4 => {
                let other = self.seed();
                let from = self.random.usize(..=other.len());
                input.truncate(at);
                input.extend(&other[from..]);
            }
            5 | 6 => {
                // A whole field, as the messages have them.
                let edge = EDGES[random.usize(..EDGES.len())].wrapping_add(random.u64(..3)).wrapping_sub(1);
                let bytes = edge.to_ne_bytes();
                let field = &bytes[..if random.bool() { 4 } else { 8 }];
                let at = at & !3;
                if let Some(place) = input.get_mut(at..at + field.len()) {
                    place.copy_from_slice(field);
                }
            }
            7 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = LETTERS[random.usize(..LETTERS.len())];
                }
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.u32(..8);
                }
            }
        }
    }
}
