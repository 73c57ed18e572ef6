//! The files of a set-up ceremony from arbitrary bytes: a value or a typed error, and one encoding per value of ours.
//!
//! To run it, with a nightly toolchain and `cargo install cargo-fuzz`, in native/:
//! `cargo +nightly fuzz run ceremony -- -max_len=65536 -max_total_time=600`
#![no_main]

use std::io::Cursor;

use _native::ceremony::phase2::Transcript;
use _native::ceremony::{ptau, transcript};
use _native::curve::{Bls381, Bn254, Curve};
use libfuzzer_sys::fuzz_target;

fn on<C: Curve>(data: &[u8]) {
    let length = data.len() as u64;
    if let Ok((phase1, _)) = transcript::read::<C>(Cursor::new(data), length) {
        let mut again = Vec::new();
        assert!(transcript::write(&phase1, &mut again).is_ok() && again == data);
        let _ = phase1.verify();
    }
    if let Ok(found) = Transcript::<C>::read(Cursor::new(data), length) {
        let mut again = Vec::new();
        assert!(found.write(&mut again).is_ok() && again == data);
        let _ = found.verify_steps();
    }
    if let Ok(mut sections) = ptau::Sections::open(Cursor::new(data), length) {
        let _ = sections.read::<C>(Some(2));
    }
}

fuzz_target!(|data: &[u8]| {
    on::<Bn254>(data);
    on::<Bls381>(data);
});
