//! `mutua compare`, as a user runs it.

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Output},
};

fn mutua(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments.split_whitespace()).output().expect("the binary runs")
}

fn directory(name: &str) -> PathBuf {
    env::temp_dir().join(format!("mutua-{name}-{}", std::process::id()))
}

#[test]
fn a_comparison_is_written_and_resumes_where_it_was_stopped() {
    let out = directory("compare");
    let run = format!(
        "compare central raymond bully --nodes 3,5 --at 4 --loads 0.5,2 --entries 200 --runs 2 \
         --out {}",
        out.display()
    );
    assert!(mutua(&run).status.success());
    let page = fs::read_to_string(out.join("report.html")).expect("the page");
    assert!(
        page.contains("<svg") && page.contains("raymond") && page.contains("bully, lowest starts")
    );
    assert!(!page.contains("src=") && !page.contains("href="), "nothing is loaded");
    let table = fs::read_to_string(out.join("results.csv")).expect("the table");
    assert_eq!(table.lines().count(), 1 + 2 * (2 * 2 + 2));
    assert!(
        fs::read_to_string(out.join("messages-light.svg")).expect("a plot").starts_with("<svg")
    );

    // Half of the results, the last line cut: the rest is measured again, and nothing else.
    let results = fs::read_to_string(out.join("results.jsonl")).expect("the results");
    fs::write(out.join("results.jsonl"), &results[..results.len() / 2]).expect("cut");
    let again = mutua(&run);
    let printed = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(printed.contains("cells were measured before"), "{printed}");
    assert_eq!(fs::read_to_string(out.join("results.csv")).expect("the table"), table);
    fs::remove_dir_all(out).expect("cleaned up");
}

#[test]
fn a_control_that_fails_is_noted_and_what_is_cut_off_is_marked() {
    let out = directory("cut");
    let run = "compare maekawa-basic bakery central --nodes 4,16 --at 4 --loads 3 --runs 2 \
               --hold 1ms,lognormal:2ms,0.5 --entries 300 --max-events 20000 \
               --warm-up-events 7000 --out";
    let output = mutua(&format!("{run} {}", out.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(out.join("report.html")).expect("the page");
    assert!(page.contains("Violations of the negative controls, as expected: maekawa-basic"));
    assert!(page.contains("Hold time lognormal:2ms,0.5") && page.contains("cut off after"));
    let table = fs::read_to_string(out.join("results.csv")).expect("the table");
    let names = table.lines().next().expect("a header");
    assert!(names.contains("sync_delay,sync_delay_95,") && names.contains("jain,jain_95,"));
    let cut = |line: &&str| line.starts_with("bakery,16,saturated,1ms,");
    let cut = table.lines().find(cut).expect("the cell");
    assert!(cut.ends_with(",cut off,,,think,all,1,") && cut.contains(",,,,,,,,,,,,"), "{cut}");
    fs::remove_dir_all(out).expect("cleaned up");
}

/// The page without its plots and their names.
fn text(page: &str) -> String {
    let parts = page.split("<svg").map(|part| part.rsplit("</svg>").next().unwrap_or(part));
    parts.collect()
}

/// The field of a table that is read without quotes.
fn field<'a>(table: &'a str, line: &str, column: &str) -> &'a str {
    let names = table.lines().next().expect("a header");
    let index = names.split(',').position(|name| name == column).expect("a column");
    let line = table.lines().find(|one| one.starts_with(line)).expect("a line");
    line.split(',').nth(index).expect("a field")
}

#[test]
fn elections_have_their_own_words_and_figures() {
    let out = directory("elections");
    // Of one process that is left theory does not speak.
    let alone = format!("compare chang-roberts --nodes 2,3 --out {}", out.display());
    assert!(mutua(&alone).status.success());
    let page = fs::read_to_string(out.join("report.html")).expect("the page");
    assert!(page.contains("All 6 figures of theory are met exactly"), "{}", text(&page));
    fs::remove_dir_all(&out).expect("cleaned up");
    let run = format!("compare bully chang-roberts --nodes 3,10 --out {}", out.display());
    assert!(mutua(&run).status.success());
    let page = fs::read_to_string(out.join("report.html")).expect("the page");
    let words = text(&page);
    assert!(words.contains("Elections compared") && words.contains("In all of 12 elections"));
    assert!(
        words.contains("learnt the coordinator")
            && words.contains("agreement, termination")
            && !words.contains(" 0 events")
    );
    for wrong in ["critical section", "0 figures", "per entry", "invitation", "permission"] {
        assert!(!words.contains(wrong), "{wrong}: {words}");
    }
    assert!(words.contains("All 18 figures of theory are met"), "{words}");
    let table = fs::read_to_string(out.join("elections.csv")).expect("the table");
    assert_eq!(table.lines().count(), 1 + 2 * 2 * 3);
    let line = "bully,10,the lowest starts";
    assert_eq!(field(&table, line, "messages"), "89");
    assert_eq!(field(&table, line, "elected"), "8");
    assert!(!out.join("results.csv").exists());

    // What is known is not measured again.
    let again = mutua(&run);
    let printed = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(printed.contains("12 of 12 cells were measured before"), "{printed}");
    assert_eq!(fs::read_to_string(out.join("elections.csv")).expect("the table"), table);
    fs::remove_dir_all(out).expect("cleaned up");
}

#[test]
fn controls_that_stand_still_are_said_to_and_are_best_at_nothing() {
    let out = directory("controls");
    let run = format!(
        "compare majority maekawa-basic raymond --nodes 3,5,10 --at 5 --loads 0.5,3 --entries 500 \
         --runs 2 --out {}",
        out.display()
    );
    assert!(mutua(&run).status.success());
    let page = text(&fs::read_to_string(out.join("report.html")).expect("the page"));
    assert!(page.contains("In all runs but those of the negative controls"), "{page}");
    // A run that stalled is not compared with theory.
    assert!(page.contains(" figures of theory are met"), "{page}");
    assert!(page.contains("as expected: maekawa-basic, where all processes stopped"), "{page}");
    assert!(page.contains("maekawa-basic saturated with 3, 5, 10 processes"), "{page}");
    assert!(!page.to_lowercase().contains("cut off after"), "{page}");
    let best = page.split("Fewest").skip(1).chain(page.split("Shortest").skip(1));
    for sentence in best.filter_map(|rest| rest.split(". ").next()) {
        assert!(!sentence.contains("maj") && !sentence.contains("basic"), "{sentence}");
    }
    let table = fs::read_to_string(out.join("results.csv")).expect("the table");
    assert_eq!(field(&table, "maekawa-basic,10,saturated", "cut_off"), "");
    assert!(field(&table, "maekawa-basic,10,saturated", "failures").contains("deadlock"));
    fs::remove_dir_all(out).expect("cleaned up");
}

#[test]
fn response_times_are_plotted_and_in_the_table() {
    let out = directory("response");
    let run = format!(
        "compare central raymond --nodes 3 --at 4 --loads 0.2,2 --entries 200 --runs 3 --out {}",
        out.display()
    );
    assert!(mutua(&run).status.success());
    let table = fs::read_to_string(out.join("results.csv")).expect("the table");
    let figure = |column| field(&table, "central,4,2,", column).parse::<f64>().expect("a number");
    let quantiles = ["response_time_p50", "response_time_p90", "response_time_p99"].map(figure);
    assert!(quantiles.is_sorted(), "{quantiles:?}");
    let hold = figure("response_time") - figure("waiting_time");
    assert!((hold - 1.0).abs() < 0.05, "{hold}");
    for plot in ["response-load.svg", "response-p99-load.svg"] {
        let svg = fs::read_to_string(out.join(plot)).expect("a plot");
        assert!(svg.contains("class=\"whisker\"") && svg.contains("raymond"), "{plot}");
    }
    let page = fs::read_to_string(out.join("report.html")).expect("the page");
    assert!(page.contains("<th>response, T</th>") && page.contains("&plusmn;"));
    assert!(page.contains("Shaded: the best of a column"));
    fs::remove_dir_all(out).expect("cleaned up");
}

#[test]
fn plots_name_their_situation_and_old_ones_go() {
    let out = directory("stale");
    let same = "compare central --nodes 3 --at 3 --loads 1 --entries 50 --runs 1";
    let run = |more: &str| {
        assert!(mutua(&format!("{same} {more} --out {}", out.display())).status.success())
    };
    run("--hold 1ms,exp:2ms");
    let exists = |name: &str| out.join(name).exists();
    assert!(exists("sync-delay-hold-1ms-latency-1ms.svg"));
    assert!(exists("sync-delay-hold-exp-2ms-latency-1ms.svg"));
    fs::write(out.join("mine.svg"), "<svg/>").expect("written");
    run("");
    assert!(exists("sync-delay.svg") && exists("mine.svg"), "what is not ours stays");
    assert!(!exists("sync-delay-hold-exp-2ms-latency-1ms.svg"));
    let page = fs::read_to_string(out.join("report.html")).expect("the page");
    assert!(page.contains("1 run of up to 50 entries each with seed 1,"));
    fs::remove_dir_all(out).expect("cleaned up");
}

#[test]
fn bad_grids_are_refused() {
    for (arguments, expected) in [
        ("compare raymnd", "did you mean"),
        ("compare --nodes 0", "from 1 to"),
        ("compare --loads 0", "above 0"),
        ("compare --hold never", "invalid duration"),
        ("compare --hold 1ms,never", "invalid duration"),
        ("compare --nodes 3,abc", "give a whole number"),
    ] {
        let output = mutua(arguments);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{arguments}: {printed}");
        assert!(printed.contains(expected), "{arguments}: {printed}");
    }
}

#[test]
fn a_cell_that_has_not_settled_has_no_figure_in_page_table_and_headline() {
    let out = directory("unsettled");
    let run = "compare naimi-trehel central --nodes 30,300 --at 5 --loads 0.5 --runs 2 \
               --entries 600 --max-events 15000 --warm-up-events 20000 --out";
    let output = mutua(&format!("{run} {}", out.display()));
    assert!(output.status.success());
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains("Not settled, and so without figures: naimi-trehel light with 300"));
    assert!(printed.contains("allow it with --warm-up-events"), "{printed}");
    let table = fs::read_to_string(out.join("results.csv")).expect("a table");
    assert_eq!(field(&table, "naimi-trehel,300,light", "messages_per_entry"), "");
    assert_ne!(field(&table, "naimi-trehel,300,light", "unsettled_events"), "");
    assert_eq!(field(&table, "naimi-trehel,30,light", "unsettled_events"), "");
    let page = text(&fs::read_to_string(out.join("report.html")).expect("a page"));
    assert!(page.contains("Not settled, and so without figures: naimi-trehel light"), "{page}");
    assert!(page.contains("one request at a time: central"), "{page}");
    fs::remove_dir_all(out).expect("it can be removed");
}

#[test]
fn workloads_and_regions_are_those_of_simulate_and_are_in_the_table() {
    let out = directory("workloads");
    let common = "compare central --nodes 4 --at 4 --entries 300 --runs 2 --regions 2 --wan 20ms";
    let arguments = "--loads 0.02,0.9 --arrivals poisson --requesters zipf:1";
    let output = mutua(&format!("{common} {arguments} --out {}", out.display()));
    assert!(output.status.success(), "{output:?}");
    let tidy = fs::read_to_string(out.join("observations.csv")).unwrap();
    let lines: Vec<Vec<&str>> = tidy.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][14..], ["arrivals", "requesters", "regions", "wan_seconds"]);
    for line in &lines[1..] {
        assert_eq!(line[14..], ["poisson", "zipf:1", "2", "0.02"], "{line:?}");
        assert_eq!(line[9], "", "no formula applies: {line:?}");
        assert_ne!(line[2], "saturated", "{line:?}");
    }
    // A request has up to two messages between regions: far more arrive than are granted.
    let of = |load: &str| lines.iter().find(|line| line[2] == load).unwrap()[10];
    assert_eq!((of("0.02"), of("0.9")), ("measured", "overloaded"));
    let page = text(&fs::read_to_string(out.join("report.html")).unwrap());
    assert!(page.contains("arrive at random") && page.contains("2 regions"), "{page}");
    assert!(page.contains("arrive faster than they are granted"), "{page}");
    let bursts = mutua(&format!("{common} --loads 0.5 --arrivals bursts --out {}", out.display()));
    assert!(bursts.status.success(), "{bursts:?}");
    for (wrong, right) in [
        ("--arrivals often", "think, poisson or bursts"),
        ("--requesters zipf:x", "zipf:S"),
        ("--requesters zipf:1 --arrivals bursts", "in a burst all processes request"),
        ("--regions 9 --wan 1ms", "give at most as many"),
        ("--regions 2 --wan x", "invalid duration"),
    ] {
        let output = mutua(&format!("compare central --nodes 4 --at 4 {wrong}"));
        assert_eq!(output.status.code(), Some(64), "{wrong}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(right), "{wrong}: {output:?}");
    }
}

#[test]
fn observations_tell_distributions_of_one_mean_apart_and_bounds_from_figures() {
    let out = directory("compare-observations");
    let run = format!(
        "compare naimi-trehel --nodes 5 --at 5 --loads 0.5 --hold 1ms --latency 1ms,exp:1ms \
         --entries 200 --runs 1 --out {}",
        out.display()
    );
    assert!(mutua(&run).status.success());
    let table = fs::read_to_string(out.join("observations.csv")).expect("the observations");
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a header");
    let place = |name| names.iter().position(|&one| one == name).expect("a column");
    let (latency, meaning) = (place("latency"), place("theory_is"));
    let rows: Vec<_> = lines.collect();
    assert!(rows.iter().all(|row| row.len() == names.len()), "{table}");
    assert!(rows.iter().any(|row| row[latency] == "exp:1ms"), "{table}");
    assert!(rows.iter().any(|row| row[meaning] == "at most"), "{table}");
    fs::remove_dir_all(out).expect("removed");
}

#[test]
fn more_requesting_processes_than_there_are_are_refused() {
    let out = directory("compare-hot");
    let few = format!("--nodes 3 --at 3 --loads 0.5 --out {}", out.display());
    let output = mutua(&format!("compare raymond --requesters hot:5 {few}"));
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("give at most 3"));
    assert!(!out.exists());
}
