//! Worker threads of one prover: parked between proofs, never spinning, gone with their prover.
//!
//! A proof's tasks are numbered. The thread that asks for a proof works too, so a team of n has n − 1 workers and a
//! team of one has none. Workers sleep on a condition variable: on shared cores a thread that spins takes the time of
//! the one it waits for.
//!
//! A process made by fork has only the thread that called fork. There a team of its parent's does everything on the
//! calling thread. (If the parent was in the middle of a proof when it forked, that proof's locks stay held in the
//! child: fork before the first proof, or not from a program that proves.)

use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// More threads than this find nothing to do: a proof has about a dozen tasks of similar size.
pub const THREADS_MAX: usize = 8;

/// What a team works on.
pub trait Tasks: Send + Sync + 'static {
    /// Tasks of one call of [`Team::run`] run at the same time, in any order, each exactly once.
    fn run(&self, task: usize);
}

pub struct Team<T: Tasks> {
    shared: Arc<Shared<T>>,
    workers: Vec<JoinHandle<()>>,
    /// Whose threads the workers are.
    process: u32,
}

struct Shared<T> {
    tasks: Arc<T>,
    state: Mutex<State>,
    /// There are tasks to take, or it is time to stop.
    wake: Condvar,
    /// The last task is done.
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// Tasks nobody has taken yet.
    left: Range<usize>,
    /// Tasks being worked on.
    running: usize,
    failed: bool,
    stop: bool,
}

impl<T: Tasks> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Tasks run outside the lock, so a panic cannot leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does tasks until none is left to take.
    fn work<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while let Some(task) = state.left.next() {
            state.running += 1;
            drop(state);
            // Every proof overwrites all it reads, so what a panic leaves behind does no harm.
            let outcome = catch_unwind(AssertUnwindSafe(|| self.tasks.run(task)));
            state = self.lock();
            state.running -= 1;
            if outcome.is_err() {
                state.failed = true;
                state.left = 0..0;
            }
        }
        state
    }

    fn serve(&self) {
        let mut state = self.lock();
        while !state.stop {
            state = self.work(state);
            if state.running == 0 {
                self.done.notify_one();
            }
            let idle = |state: &mut State| state.left.is_empty() && !state.stop;
            state = self.wake.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T: Tasks> Team<T> {
    /// `threads` counts the caller. Errors: `threads-range`, `threads-unavailable`.
    pub fn new(tasks: Arc<T>, threads: usize) -> Result<Self> {
        check(threads)?;
        let shared =
            Arc::new(Shared { tasks, state: Mutex::new(State::default()), wake: Condvar::new(), done: Condvar::new() });
        let mut team = Self { shared, workers: Vec::new(), process: std::process::id() };
        for _ in 1..threads {
            let shared = Arc::clone(&team.shared);
            let worker = std::thread::Builder::new().name("sits-prover".into()).spawn(move || shared.serve());
            // On failure the team is dropped, which stops the workers it has.
            team.workers.push(worker.map_err(|e| Error::new("threads-unavailable", format!("no thread: {e}")))?);
        }
        Ok(team)
    }

    pub fn tasks(&self) -> &T {
        &self.shared.tasks
    }

    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// Returns when all tasks of the range are done. One caller at a time.
    ///
    /// Error: `internal` if a task panicked; the tasks that were not yet taken are then left out.
    pub fn run(&self, tasks: Range<usize>) -> Result<()> {
        if self.workers.is_empty() || !self.is_of_this_process() {
            tasks.for_each(|task| self.shared.tasks.run(task));
            return Ok(());
        }
        let mut state = self.shared.lock();
        let wanted = tasks.len().saturating_sub(1).min(self.workers.len());
        state.left = tasks;
        state.failed = false;
        (0..wanted).for_each(|_| self.shared.wake.notify_one());
        state = self.shared.work(state);
        state = self.shared.done.wait_while(state, |s| s.running > 0).unwrap_or_else(PoisonError::into_inner);
        if state.failed {
            return Err(Error::new("internal", "a part of the proof failed; please report this"));
        }
        Ok(())
    }
}

/// Error: `threads-range`.
pub fn check(threads: usize) -> Result<()> {
    if (1..=THREADS_MAX).contains(&threads) {
        return Ok(());
    }
    Err(Error::new("threads-range", format!("{threads} threads, expected 1 to {THREADS_MAX}")))
}

impl<T: Tasks> Drop for Team<T> {
    fn drop(&mut self) {
        let workers = std::mem::take(&mut self.workers);
        if !self.is_of_this_process() {
            // These threads do not exist here, and waiting for them would take forever.
            workers.into_iter().for_each(std::mem::forget);
            return;
        }
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
        for worker in workers {
            // A worker catches the panics of its tasks, so there is nothing to learn from its end.
            drop(worker.join());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Barrier;
    use std::thread::ThreadId;

    use super::*;

    /// Counts how often each task ran.
    struct Counter(Vec<AtomicUsize>);

    impl Tasks for Counter {
        fn run(&self, task: usize) {
            self.0[task].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counter(tasks: usize) -> Arc<Counter> {
        Arc::new(Counter((0..tasks).map(|_| AtomicUsize::new(0)).collect()))
    }

    #[test]
    fn every_task_runs_once() {
        for threads in 1..=THREADS_MAX {
            let team = Team::new(counter(40), threads).unwrap();
            assert_eq!(team.threads(), threads);
            for round in 1..=200 {
                for range in [0..1, 1..1, 1..7, 7..40] {
                    team.run(range).unwrap();
                }
                assert!(team.tasks().0.iter().all(|count| count.load(Ordering::Relaxed) == round));
            }
        }
    }

    /// Tasks that wait for each other: they end only if all of them run at the same time.
    struct Together(Barrier, Mutex<BTreeSet<String>>);

    impl Tasks for Together {
        fn run(&self, _: usize) {
            self.1.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
            self.0.wait();
        }
    }

    #[test]
    fn all_threads_work_at_once_and_the_caller_is_one_of_them() {
        for threads in [2, 4] {
            let team = Team::new(Arc::new(Together(Barrier::new(threads), Mutex::default())), threads).unwrap();
            (0..20).for_each(|_| team.run(0..threads).unwrap());
            let ids = team.tasks().1.lock().unwrap();
            assert_eq!(ids.len(), threads);
            assert!(ids.contains(&format!("{:?}", std::thread::current().id())));
        }
    }

    struct Here(Mutex<Vec<ThreadId>>);

    impl Tasks for Here {
        fn run(&self, _: usize) {
            self.0.lock().unwrap().push(std::thread::current().id());
        }
    }

    #[test]
    fn one_thread_means_the_callers() {
        let team = Team::new(Arc::new(Here(Mutex::default())), 1).unwrap();
        team.run(0..5).unwrap();
        assert!(team.workers.is_empty());
        assert_eq!(*team.tasks().0.lock().unwrap(), vec![std::thread::current().id(); 5]);
    }

    /// What a child process sees: other people's threads.
    #[test]
    fn a_forked_process_works_alone() {
        let tasks = Arc::new(Here(Mutex::default()));
        let mut team = Team::new(Arc::clone(&tasks), 3).unwrap();
        team.process = team.process.wrapping_add(1);
        team.run(0..5).unwrap();
        assert_eq!(*tasks.0.lock().unwrap(), vec![std::thread::current().id(); 5]);
        // Dropping it here must not touch the workers; as this process does own them, they are stopped by hand.
        let shared = Arc::clone(&team.shared);
        drop(team);
        assert!(!shared.lock().stop);
        shared.lock().stop = true;
        shared.wake.notify_all();
    }

    struct Failing(usize);

    impl Tasks for Failing {
        fn run(&self, task: usize) {
            assert!(task != self.0, "on purpose");
        }
    }

    #[test]
    fn a_panic_becomes_an_error_and_the_team_goes_on() {
        for bad in 0..4 {
            let team = Team::new(Arc::new(Failing(bad)), 2).unwrap();
            for _ in 0..50 {
                assert_eq!(team.run(0..4).unwrap_err().code, "internal");
                team.run(4..8).unwrap();
            }
        }
    }

    #[test]
    fn dropping_a_team_ends_its_workers() {
        for _ in 0..100 {
            let tasks = counter(4);
            let team = Team::new(Arc::clone(&tasks), 4).unwrap();
            team.run(0..4).unwrap();
            drop(team);
            // Each worker held a reference to the tasks.
            assert_eq!(Arc::strong_count(&tasks), 1);
        }
    }

    #[test]
    fn refuses_numbers_of_threads_out_of_range() {
        for threads in [0, THREADS_MAX + 1, usize::MAX] {
            assert_eq!(Team::new(counter(1), threads).err().unwrap().code, "threads-range");
        }
    }
}
