//! One function with another one inlined into it. Argument: CPU seconds.

use std::hint::black_box;
use std::time::{Duration, Instant};

#[inline(always)]
fn step(sum: u64, round: u64) -> u64 {
    black_box(sum).wrapping_mul(6364136223846793005).wrapping_add(round)
}

#[inline(never)]
pub fn spin(rounds: u64) -> u64 {
    let mut sum = 1;
    let mut round = 0;
    while round < rounds {
        sum = step(sum, round);
        round += 1;
    }
    sum
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs_f64(seconds) {
        black_box(spin(100_000));
    }
}
