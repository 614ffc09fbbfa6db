//! The contract suite, with an agent that asks and with one that leaves everything to us.

mod asking {
    use crate::cast::PlayerCast;

    fn cast() -> PlayerCast {
        PlayerCast { asks: true }
    }

    ftl_testkit::agent_contract!(cast);
}

mod serving {
    use crate::cast::PlayerCast;

    fn cast() -> PlayerCast {
        PlayerCast { asks: false }
    }

    ftl_testkit::agent_contract!(cast);
}
