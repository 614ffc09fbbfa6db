//! Load: a swarm against a cap, and a long chain that is killed on its way.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::oracle::{facts, in_order, is_whole, nothing_undercounted};
use crate::stage::{Dice, Running, Stage, printed, scale};

/// A swarm: everybody at once, one cap for all.
const SWARM: &str = "# swarm\n\n```protocol
PROTOCOL: swarm
INPUT: bees
STATE: FLY
  DO: all = FOR EACH bee IN bees
    DO: Task(coder) step=plan story={bee}
  RETURN: complete settled={len(all.settled)} failed={len(all.failed)}
```\n";

/// What one run may use, and what is set aside for one agent.
const CAP: u64 = 100_000;
const RESERVE: u64 = 1_000;

/// The agent that uses more than was set aside for it, and says so only at its end.
const GREEDY: u64 = 90;

#[test]
fn a_swarm_oversteps_its_cap_by_at_most_one_reservation() {
    let bees = scale("FTL_BEES", 500);
    let mut dice = Dice::new(6);
    let mut script = String::new();
    for bee in 0..bees {
        let (random, delay) = (dice.below(RESERVE + 1), dice.below(6));
        // One of them uses twice what was set aside for it.
        let tokens = if bee == GREEDY { 2 * RESERVE } else { random };
        let _ = write!(
            script,
            "[[scene]]\nrole = \"coder\"\nwhen = {{ story = \"bee {bee}\" }}\n[[scene.step]]\ndelay = {delay}\n\
             usage = {{ tokens = {tokens} }}\nsubmit = {{ text = \"buzz\" }}\n\n"
        );
    }
    let stage = Stage::new();
    stage.write(".ftl/protocols/swarm.md", SWARM);
    stage.write("swarm.toml", &script);
    let settings = format!(
        "[limits]\ntokens = {CAP}\nmoney = \"none\"\nturns = \"none\"\ntime = \"none\"\n\
         [reserve]\ntokens = {RESERVE}\n"
    );
    stage.write(".ftl/config.toml", &settings);
    let names: Vec<Json> = (0..bees).map(|bee| Json::from(format!("bee {bee}"))).collect();
    let input = format!("bees={}", Json::from(names));
    let ended = stage.ftl(&["run", "swarm", &input, "--script", "swarm.toml"]).code(3);
    let ended = ended.says(&["tokens spent"]);
    let run = printed(&ended.out).unwrap();
    let status = stage.status(&run);
    let used = status["meters"]["tokens"]["used"].as_u64().unwrap();
    println!("{bees} agents used {used} of {CAP} tokens");
    assert!(used <= CAP + RESERVE, "{used} of {CAP}");
    assert!(used > CAP - RESERVE, "it is held before the cap is reached: {used} of {CAP}");
    assert_eq!(status["standing"], "held");
    let heard = facts(&stage.journal(&run), "heard").count() as u64;
    assert!(heard > 50 && heard < bees, "{heard}: what was done is kept");
    let raised = ["raise", &run, "tokens", "10M", "--reason", "the hive wants more"];
    stage.ftl(&raised).code(0).says(&["complete"]);
    let journal = stage.journal(&run);
    let end = facts(&journal, "settled").next().unwrap();
    assert_eq!((end["values"]["settled"].as_u64(), &end["values"]["failed"]), (Some(bees), &Json::from(0)));
    in_order(&journal);
    nothing_undercounted(&stage, &run);
    is_whole(&stage);
}

/// A chain: each step is told what the one before it said.
const CHAIN: &str = "# chain\n\n```protocol
PROTOCOL: chain
LIMIT: links = 1023 ELSE HOLD
STATE: BEGIN
  GOTO: LINK with last=\"first\"
STATE: LINK with last
  PAY: links ELSE RETURN complete links={links.used}
  DO: plan = Task(coder) step=plan story={last}
  GOTO: LINK with last={plan.text}
```\n";

/// How long it may take at most; it is far quicker on a machine that has nothing else to do.
const MAX_CHAIN: Duration = Duration::from_secs(60);

#[test]
fn a_long_chain_is_killed_twice_and_comes_to_its_end() {
    let stage = Stage::new();
    stage.write(".ftl/protocols/chain.md", CHAIN);
    stage.write(
        "chain.toml",
        "[[scene]]\n[[scene.step]]\nusage = { tokens = 10 }\nsubmit = { text = \"next\" }\n",
    );
    stage.write(
        ".ftl/config.toml",
        "[limits]\ntokens = \"none\"\nmoney = \"none\"\nturns = \"none\"\ntime = \"none\"\n",
    );
    let began = Instant::now();
    let mut running = Running::start(stage.command(&["run", "chain", "--script", "chain.toml"]));
    stage.until("it is opened", |_| printed(&running.read_output()).is_some());
    let run = printed(&running.read_output()).unwrap();
    for links in [341, 682] {
        let far = |stage: &Stage| stage.status(&run)["meters"]["links"]["used"].as_u64() >= Some(links);
        stage.until("a third of the way is done", far);
        assert!(running.kill().is_killed(), "it was over before it was killed at {links}");
        running = Running::start(stage.command(&["resume", &run]));
    }
    running.end().code(0);
    let took = began.elapsed();
    println!("a chain of 1,023 steps, killed and resumed twice: {took:?}");
    let journal = stage.journal(&run);
    let end = facts(&journal, "settled").next().unwrap();
    assert_eq!(end["values"]["links"], 1023);
    in_order(&journal);
    nothing_undercounted(&stage, &run);
    is_whole(&stage);
    assert!(took < MAX_CHAIN, "{took:?}");
}
