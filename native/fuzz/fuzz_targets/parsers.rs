//! `cargo +nightly fuzz run parsers` in native/: circuit, verification key and proof from arbitrary bytes.
#![no_main]

use _native::circuit::Circuit;
use _native::keys::VerificationKey;
use _native::verifier::{Proof, Verifier};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Circuit::parse(data);
    if let Ok(proof) = Proof::decode(data) {
        assert_eq!(proof.encode().as_slice(), data);
    }
    if let Ok(key) = VerificationKey::decode(data) {
        assert_eq!(key.encode(), data);
        let _ = Verifier::new(&key);
    }
});
