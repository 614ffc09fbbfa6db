//! How much works at the same time.

/// How many agents, builds and other actions work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// How many agents.
    pub agents: usize,
    /// Commands that build and test: they keep no agent from its work, and no agent keeps them.
    pub builds: usize,
    /// How many other actions.
    pub actions: usize,
}

impl Default for Width {
    fn default() -> Width {
        Width { agents: 4, builds: 4, actions: 8 }
    }
}
