//! JSON read in one way only, its canonical spelling, and paths into it.
//!
//! Identity and amounts are judged on what stands here, so a body that two parsers could read differently
//! is refused, and numbers are never passed through a float.

mod amount;
mod canonical;
mod fault;
mod lookalike;
mod select;
mod strict;

pub use amount::{AmountFault, amount};
pub use canonical::canonical;
pub(crate) use canonical::{plain_decimal, write_text};
pub use fault::BodyFault;
pub(crate) use fault::excerpt;
pub use lookalike::{lookalike, respelled};
pub use select::{get, select};
pub(crate) use strict::is_reserved;
pub use strict::{MAX_DEPTH, MAX_NUMBER, of_answer, strict};
