//! A guard by itself. It exists for the tests of the engine, which cannot see the `ftl` binary; it
//! does nothing but call the guard, and never prints.

fn main() {
    std::process::exit(ftl_process::guard::main());
}
