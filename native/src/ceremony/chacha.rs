//! The deterministic stream that snarkjs draws beacon keys and hashed points from: ChaCha20 with a zero nonce, a
//! 128-bit block counter, and the first 32 bytes of a hash as eight big-endian words of key.

const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
const DOUBLE_ROUNDS: usize = 10;

pub struct ChaCha {
    key: [u32; 8],
    counter: u128,
    block: [u32; 16],
    used: usize,
}

impl ChaCha {
    /// `seed` is at least 32 bytes of a hash.
    pub fn new(seed: &[u8]) -> Self {
        let mut key = [0u32; 8];
        for (word, bytes) in key.iter_mut().zip(seed.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Self { key, counter: 0, block: [0; 16], used: 16 }
    }

    pub fn next_word(&mut self) -> u32 {
        if self.used == self.block.len() {
            self.refill();
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    fn refill(&mut self) {
        let mut state = [0u32; 16];
        state[..4].copy_from_slice(&CONSTANTS);
        state[4..12].copy_from_slice(&self.key);
        for (i, word) in state[12..].iter_mut().enumerate() {
            *word = (self.counter >> (32 * i)) as u32;
        }
        let mut block = state;
        for _ in 0..DOUBLE_ROUNDS {
            for i in 0..4 {
                quarter(&mut block, [i, 4 + i, 8 + i, 12 + i]);
            }
            for i in 0..4 {
                quarter(&mut block, [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4]);
            }
        }
        for (word, start) in block.iter_mut().zip(state) {
            *word = word.wrapping_add(start);
        }
        (self.block, self.used) = (block, 0);
        self.counter = self.counter.wrapping_add(1);
    }
}

fn quarter(v: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (first, second, third, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        v[first] = v[first].wrapping_add(v[second]);
        v[third] = (v[third] ^ v[first]).rotate_left(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first block of a zero key (draft-strombergson-chacha-test-vectors, TC1: 76 b8 e0 ad a0 f1 3d 90 …).
    #[test]
    fn known_answer() {
        let mut random = ChaCha::new(&[0; 32]);
        assert_eq!([random.next_word(), random.next_word()], [0xade0_b876, 0x903d_f1a0]);
        let rest: Vec<u32> = (2..17).map(|_| random.next_word()).collect();
        assert_eq!(rest[14], 0xbee7_079f, "the second block begins 9f 07 e7 be");
    }
}
