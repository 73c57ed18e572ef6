//! Times proofs of a circuit file: `cargo run --release --example stages -- FILE [COUNT]`.
//!
//! Prints the least and the median time of each phase and of the whole; run it on an idle machine. `SITS_KERNEL` chooses
//! the arithmetic.

use std::time::{Duration, Instant};

use _native::{
    circuit::Circuit,
    prover::{Phase, Prover},
    setup::setup,
};

const PHASES: [Phase; 5] = [Phase::Rows, Phase::Transforms, Phase::WitnessSums, Phase::QuotientSum, Phase::Blinding];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = std::fs::read(arguments.next().ok_or("usage: stages FILE [COUNT]")?)?;
    let count: usize = arguments.next().map_or(Ok(200), |n| n.parse())?;
    let circuit = Circuit::parse(&file)?;
    let (key, _) = setup(&circuit)?;
    let key = key.encode();
    let start = Instant::now();
    let prover = Prover::new(&file, &key)?;
    println!("load {:?}, tables {} bytes, domain {}", start.elapsed(), prover.table_bytes(), prover.domain_size());
    let mut times = vec![Vec::with_capacity(count); PHASES.len() + 1];
    for i in 0..count.max(1) as i64 {
        let inputs: Vec<i64> = (0..i64::from(circuit.n_inputs)).map(|j| (i * 37 + j * 29) % 127 - 60).collect();
        let start = Instant::now();
        let mut last = start;
        prover.prove_observed(&inputs, &[7; 31], &mut |phase| {
            let now = Instant::now();
            times[phase as usize].push(now - last);
            last = now;
        })?;
        times[PHASES.len()].push(start.elapsed());
    }
    for (name, times) in PHASES.iter().map(|p| format!("{p:?}")).chain(["all".into()]).zip(&mut times) {
        times.sort();
        let (least, median): (Duration, Duration) = (times[0], times[times.len() / 2]);
        println!("{name:12} least {:4} us, median {:4} us", least.as_micros(), median.as_micros());
    }
    Ok(())
}
