//! Runs STF tests: `stf PROGRAM.json TEST.stf …`, in pairs.

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (mut passed, mut failed) = (0, 0);
    for pair in args.chunks(2) {
        let [json, test] = pair else { break };
        let result = std::fs::read(json)
            .map_err(|e| e.to_string())
            .and_then(|j| softswitch::Program::load(&j).map_err(|e| e.to_string()))
            .and_then(|p| {
                let text = std::fs::read_to_string(test).map_err(|e| e.to_string())?;
                softswitch::stf::run(p, &text, |_| {}).map_err(|e| e.to_string())
            });
        match result {
            Ok(()) => passed += 1,
            Err(e) => {
                failed += 1;
                println!("FAILED {test}: {e}");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
}
