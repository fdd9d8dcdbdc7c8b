//! The switch does what its faults say, seen from programs on the hosts.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use mutua_testbed::{Fault, Host, Testbed};

/// Sends `count` numbered datagrams from `from` to `to`, waits a moment, and returns what arrives,
/// as pairs of number and milliseconds on the way.
fn send(from: &Host, to: &Host, count: u32) -> Vec<(u32, f64)> {
    let receiver = "import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 7000)); print('ready', flush=True); s.settimeout(1)
try:
    while True:
        n, at = s.recv(99).split()
        print(int(n), (time.monotonic() - float(at)) * 1000, flush=True)
except TimeoutError: pass";
    let sender = "import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(int(sys.argv[2])):
    s.sendto(b'%d %f' % (n, time.monotonic()), (sys.argv[1], 7000)); time.sleep(0.001)";
    let mut listening = to
        .command("python3")
        .args(["-c", receiver])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stdout = std::io::BufReader::new(listening.stdout.take().expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("it is ready");
    let mut sending: Command = from.command("python3");
    sending.args(["-c", sender, &to.address().to_string(), &count.to_string()]);
    assert!(sending.status().expect("starts").success());
    let text = std::io::read_to_string(stdout).expect("text");
    listening.wait().expect("it ends");
    let pair = |line: &str| {
        let (number, milliseconds) = line.split_once(' ').expect("two numbers");
        (number.parse().expect("a number"), milliseconds.parse().expect("a time"))
    };
    text.lines().map(pair).collect()
}

#[test]
fn links_carry_frames_and_a_cut_is_one_way() {
    let testbed = Testbed::new(3, 1).expect("a testbed");
    let [a, b, c] = [0, 1, 2].map(|index| testbed.host(index));
    assert_eq!(send(a, b, 20).len(), 20);
    testbed.switch().set(0, 1, Fault::Cut);
    assert_eq!(send(a, b, 20), []);
    assert_eq!(send(b, c, 20).len(), 20, "other links work");
    // A datagram from b to a needs a's answer to b's question for its hardware address, unless b
    // knows it already, which it does by now.
    assert_eq!(send(b, a, 20).len(), 20, "the other direction works");
    testbed.switch().partition(&[&[0, 1], &[2]]);
    assert_eq!(send(a, b, 20).len(), 20);
    assert_eq!(send(c, b, 20), []);
    testbed.switch().heal();
    assert_eq!(send(c, b, 20).len(), 20);
}

#[test]
fn links_delay_and_lose_frames() {
    let testbed = Testbed::new(2, 7).expect("a testbed");
    let [a, b] = [0, 1].map(|index| testbed.host(index));
    let (delay, jitter) = (Duration::from_millis(30), Duration::ZERO);
    testbed.switch().set(0, 1, Fault::Delay { delay, jitter });
    let arrived = send(a, b, 20);
    assert_eq!(arrived.len(), 20);
    assert!(arrived.iter().all(|&(_, milliseconds)| milliseconds >= 29.0), "{arrived:?}");
    testbed.switch().set(0, 1, Fault::Loss { lost: 50, repeated: 50 });
    let arrived: Vec<_> = send(a, b, 200).into_iter().map(|(number, _)| number).collect();
    let mut different = arrived.clone();
    different.dedup();
    assert!((50..150).contains(&different.len()), "half are lost: {}", different.len());
    assert!(arrived.len() > different.len(), "some arrive twice");
}

#[test]
fn processes_and_namespaces_end_with_the_testbed() {
    let testbed = Testbed::new(1, 1).expect("a testbed");
    let namespace = testbed.host(0).namespace().to_owned();
    let mut sleeping = testbed.host(0).command("sleep").arg("99").spawn().expect("starts");
    // `ip` enters the namespace before it becomes `sleep`.
    let pids = || Command::new("ip").args(["netns", "pids", &namespace]).output().expect("runs");
    for _ in 0..200 {
        if !pids().stdout.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(testbed);
    assert!(!sleeping.wait().expect("it ends").success());
    let left = Command::new("ip").args(["netns", "list"]).output().expect("runs").stdout;
    assert!(!String::from_utf8_lossy(&left).contains(&namespace));
}
