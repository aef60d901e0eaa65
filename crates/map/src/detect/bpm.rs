//! Algorithm 1.
