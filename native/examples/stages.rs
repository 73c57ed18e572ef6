//! Times proofs of a circuit file: `cargo run --release --example stages -- FILE [COUNT]`.
//!
//! Prints the least and the median CPU time of this thread for each phase and the whole. `SITS_KERNEL` chooses
//! the arithmetic.

use std::time::Duration;

use _native::curve::Curve;
use _native::with_curve;

use _native::{
    circuit::Circuit,
    prover::{Phase, Prover},
    setup::setup,
    verifier::Verifier,
};

const PHASES: [Phase; 5] = [Phase::Rows, Phase::Transforms, Phase::WitnessSums, Phase::QuotientSum, Phase::Blinding];

#[allow(unsafe_code)]
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and `time` is a valid place for its value.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = std::fs::read(arguments.next().ok_or("usage: stages FILE [COUNT]")?)?;
    let count: usize = arguments.next().map_or(Ok(200), |n| n.parse())?;
    let circuit = Circuit::parse(&file)?;
    with_curve!(circuit.curve, C => time::<C>(&circuit, &file, count))
}

fn time<C: Curve>(circuit: &Circuit, file: &[u8], count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (key, key_v) = setup::<C>(circuit)?;
    let key = key.encode();
    let start = cpu_time();
    let prover = Prover::<C>::new(file, &key)?;
    println!("{} {}, {} rows", C::NAME, prover.kernel().name(), circuit.constraints.len());
    println!("load {:?}, tables {} bytes, domain {}", (cpu_time() - start), prover.table_bytes(), prover.domain_size());
    let mut times = vec![Vec::with_capacity(count); PHASES.len() + 1];
    let mut outputs = Vec::new();
    for i in 0..count.max(1) as i64 {
        let inputs: Vec<i64> = (0..i64::from(circuit.n_inputs)).map(|j| (i * 37 + j * 29) % 127 - 60).collect();
        let start = cpu_time();
        let mut last = start;
        prover.prove_into(&inputs, &[7; 31], &mut outputs, &mut |phase| {
            let now = cpu_time();
            times[phase as usize].push(now - last);
            last = now;
        })?;
        times[PHASES.len()].push(cpu_time() - start);
    }
    for (name, times) in PHASES.iter().map(|p| format!("{p:?}")).chain(["all".into()]).zip(&mut times) {
        times.sort();
        let (least, median): (Duration, Duration) = (times[0], times[times.len() / 2]);
        println!("{name:12} least {:4} us, median {:4} us", least.as_micros(), median.as_micros());
    }
    let verifier = Verifier::new(&key_v)?;
    let inputs = vec![1; circuit.n_inputs as usize];
    let (outputs, proof) = prover.prove(&inputs, &[7; 31])?;
    let proof = proof.encode();
    let mut times = Vec::with_capacity(count);
    for _ in 0..count.clamp(1, 200) {
        let start = cpu_time();
        verifier.verify(&inputs, &outputs, &[7; 31], &proof)?;
        times.push(cpu_time() - start);
    }
    times.sort();
    println!("verify       least {:4} us, median {:4} us", times[0].as_micros(), times[times.len() / 2].as_micros());
    Ok(())
}
