//! Times proofs of a circuit file: `cargo run --release --example stages -- FILE [COUNT]`.
//!
//! Prints the least and the median wall-clock time; run it on an idle machine.

use std::time::Instant;

use _native::{circuit::Circuit, prover::Prover, setup::setup};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = std::fs::read(arguments.next().ok_or("usage: stages FILE [COUNT]")?)?;
    let count: usize = arguments.next().map_or(Ok(200), |n| n.parse())?;
    let circuit = Circuit::parse(&file)?;
    let (key, _) = setup(&circuit)?;
    let start = Instant::now();
    let prover = Prover::new(&file, &key.encode())?;
    println!("load {:?}, tables {} bytes, domain {}", start.elapsed(), prover.table_bytes(), prover.domain.size);
    let mut times = Vec::with_capacity(count);
    for i in 0..count.max(1) as i64 {
        let inputs: Vec<i64> = (0..i64::from(circuit.n_inputs)).map(|j| (i * 37 + j * 29) % 127 - 60).collect();
        let start = Instant::now();
        prover.prove(&inputs, &[7; 31])?;
        times.push(start.elapsed());
    }
    times.sort();
    println!("prove least {:?}, median {:?}", times[0], times[times.len() / 2]);
    Ok(())
}
