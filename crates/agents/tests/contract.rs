//! Every backend is put through the contract suite of the testkit.

use ftl_agents::model::Dialect;
use ftl_testkit::speakers::{ModelCast, ScriptCast};

mod scripted {
    use super::ScriptCast;

    fn cast() -> ScriptCast {
        ScriptCast
    }

    ftl_testkit::agent_contract!(cast);
}

mod chat {
    use super::{Dialect, ModelCast};

    fn cast() -> ModelCast {
        ModelCast(Dialect::Chat)
    }

    ftl_testkit::agent_contract!(cast);
}

mod responses {
    use super::{Dialect, ModelCast};

    fn cast() -> ModelCast {
        ModelCast(Dialect::Responses)
    }

    ftl_testkit::agent_contract!(cast);
}

mod anthropic {
    use super::{Dialect, ModelCast};

    fn cast() -> ModelCast {
        ModelCast(Dialect::Anthropic)
    }

    ftl_testkit::agent_contract!(cast);
}
