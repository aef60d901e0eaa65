//! The perf meter end to end, with software events in the place of hardware ones: real programs,
//! threads, children and exec, counted against traffic that is known beforehand.

mod child;
mod counting;
mod groups;
mod sampling;

#[test]
fn child_program() {
    child::main();
}
