//! The scalar kernels: one loop, each with its own multiplication.

use super::{Element, Multiply, Pair, Point};

/// Pairs worked on together, each with its own chain of products: a kernel may interleave what does not wait for each
/// other's results.
const CHAINS: usize = 2;

/// Memory of a batch, kept between calls.
pub struct Scratch<F> {
    /// Every chain's product of the denominators before a block.
    prefixes: Vec<[F; CHAINS]>,
}

impl<F> Default for Scratch<F> {
    fn default() -> Self {
        Self { prefixes: Vec::new() }
    }
}

/// How the sum of two affine points comes about. Every case is exact, so hostile keys with repeated, opposite or
/// infinite points cannot make the result wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    /// Slope (y₂ − y₁)/(x₂ − x₁).
    Chord,
    /// Slope 3x²/2y.
    Tangent,
    Left,
    Right,
    Infinity,
}

#[inline(always)]
fn classify<F: Element>(left: &Point<F>, right: &Point<F>) -> (Case, F) {
    let dx = right.x - left.x;
    if dx.is_zero() || left.is_infinity() || right.is_infinity() {
        classify_rare(left, right)
    } else {
        (Case::Chord, dx)
    }
}

/// The case and its denominator, which is never zero.
#[cold]
fn classify_rare<F: Element>(left: &Point<F>, right: &Point<F>) -> (Case, F) {
    if right.is_infinity() {
        (Case::Left, F::ONE)
    } else if left.is_infinity() {
        (Case::Right, F::ONE)
    } else if (left.y - right.y).is_zero() {
        (Case::Tangent, left.y.double())
    } else {
        (Case::Infinity, F::ONE)
    }
}

type Block = [Pair; CHAINS];

/// Whole blocks, and the rest filled up with its last pair: its sum is written twice.
#[inline(always)]
fn blocks(pairs: &[Pair]) -> (&[Block], Option<Block>) {
    let (whole, rest) = pairs.as_chunks::<CHAINS>();
    (whole, rest.last().map(|last| std::array::from_fn(|i| *rest.get(i).unwrap_or(last))))
}

/// `out[pair.to] = table[pair.left] + table[pair.right]` for all pairs, with one inversion.
pub fn add_pairs<F: Element, K: Multiply>(
    kernel: K,
    table: &[Point<F>],
    pairs: &[Pair],
    out: &mut [Point<F>],
    scratch: &mut Scratch<F>,
) {
    let prefixes = &mut scratch.prefixes;
    prefixes.clear();
    let mut products = [F::ONE; CHAINS];
    let (whole, rest) = blocks(pairs);
    for block in whole.iter().chain(&rest) {
        prefixes.push(products);
        let denominators = [denominator(table, &block[0]), denominator(table, &block[1])];
        products = F::times_each(products, denominators, kernel);
    }
    let mut inverses = invert(products, kernel);
    for (block, prefixes) in rest.iter().chain(whole.iter().rev()).zip(prefixes.iter().rev()) {
        inverses = divide(table, block, out, prefixes, inverses, kernel);
    }
}

#[inline(always)]
fn is_ordinary<F: Element>(dx: &F, left: &Point<F>, right: &Point<F>) -> bool {
    !dx.maybe_zero() & !left.x.has_zero_low_limb() & !right.x.has_zero_low_limb()
}

#[inline(always)]
fn denominator<F: Element>(table: &[Point<F>], pair: &Pair) -> F {
    let (left, right) = (&table[pair.left.index()], &table[pair.right.index()]);
    let dx = right.x - left.x;
    if is_ordinary(&dx, left, right) {
        dx
    } else {
        classify(&pair.left.load(table), &pair.right.load(table)).1
    }
}

/// Every factor is non-zero by classification, so the inverses exist.
#[inline(always)]
fn invert<F: Element, K: Multiply>(products: [F; CHAINS], kernel: K) -> [F; CHAINS] {
    let [first, second] = products;
    let inverse = first.times(second, kernel).inverse();
    F::times_each([inverse; CHAINS], [second, first], kernel)
}

/// Writes a block's sums and returns the inverses of the products before it.
#[inline(always)]
fn divide<F: Element, K: Multiply>(
    table: &[Point<F>],
    block: &Block,
    out: &mut [Point<F>],
    prefixes: &[F; CHAINS],
    inverses: [F; CHAINS],
    kernel: K,
) -> [F; CHAINS] {
    let [p, q] = block;
    let (l0, r0) = (&table[p.left.index()], &table[p.right.index()]);
    let (l1, r1) = (&table[q.left.index()], &table[q.right.index()]);
    let (dx0, dx1) = (r0.x - l0.x, r1.x - l1.x);
    if !(is_ordinary(&dx0, l0, r0) & is_ordinary(&dx1, l1, r1)) {
        return divide_rare(table, block, out, prefixes, inverses, kernel);
    }
    let (ly0, ly1) = (l0.y.negate_if(p.left.negates()), l1.y.negate_if(q.left.negates()));
    let rise0 = r0.y.negate_if(p.right.negates()) - ly0;
    let rise1 = r1.y.negate_if(q.right.negates()) - ly1;
    let reciprocals = F::times_each(inverses, *prefixes, kernel);
    let next = F::times_each(inverses, [dx0, dx1], kernel);
    let slopes = F::times_each([rise0, rise1], reciprocals, kernel);
    let squares = F::times_each(slopes, slopes, kernel);
    let (x0, x1) = (squares[0] - l0.x - r0.x, squares[1] - l1.x - r1.x);
    let falls = F::times_each(slopes, [l0.x - x0, l1.x - x1], kernel);
    out[p.to as usize] = Point::new(x0, falls[0] - ly0);
    out[q.to as usize] = Point::new(x1, falls[1] - ly1);
    next
}
#[cold]
#[inline(never)]
fn divide_rare<F: Element, K: Multiply>(
    table: &[Point<F>],
    block: &Block,
    out: &mut [Point<F>],
    prefixes: &[F; CHAINS],
    inverses: [F; CHAINS],
    kernel: K,
) -> [F; CHAINS] {
    let ends = block.map(|pair| (pair.left.load(table), pair.right.load(table)));
    let cases = ends.map(|(left, right)| classify(&left, &right));
    let reciprocals = F::times_each(inverses, *prefixes, kernel);
    let next = F::times_each(inverses, cases.map(|(_, denominator)| denominator), kernel);
    let mut rises = ends.map(|(left, right)| right.y - left.y);
    for ((rise, (left, _)), (case, _)) in rises.iter_mut().zip(&ends).zip(&cases) {
        if *case == Case::Tangent {
            let square = left.x.square(kernel);
            *rise = square.double() + square;
        }
    }
    let slopes = F::times_each(rises, reciprocals, kernel);
    let squares = F::times_each(slopes, slopes, kernel);
    let mut sums = [Point::INFINITY; CHAINS];
    for ((sum, square), (left, right)) in sums.iter_mut().zip(squares).zip(&ends) {
        sum.x = square - left.x - right.x;
    }
    let mut runs = sums.map(|sum| sum.x);
    for (run, (left, _)) in runs.iter_mut().zip(&ends) {
        *run = left.x - *run;
    }
    let falls = F::times_each(slopes, runs, kernel);
    for (i, ((left, right), (case, _))) in ends.iter().zip(&cases).enumerate() {
        out[block[i].to as usize] = match case {
            Case::Chord | Case::Tangent => Point::new(sums[i].x, falls[i] - left.y),
            Case::Left => *left,
            Case::Right => *right,
            Case::Infinity => Point::INFINITY,
        };
    }
    next
}
