//! Processes: every command and agent runs in a tree of its own, which `ftl` owns to the end.
