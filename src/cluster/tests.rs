//! Tests of the messages of plans.
