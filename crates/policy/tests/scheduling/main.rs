//! The guarantees of the scheduler, tested through its public interface.

mod convexity;
mod fairness;
mod hybrid;
mod idle;
mod learning;
mod machine;
mod pairing;
mod selection;
mod sleeping;
