//! Text to [`Config`]. Opens no file and reads no environment: the caller hands the text in, and gets either a
//! whole configuration or every fault in it.

pub mod model;
