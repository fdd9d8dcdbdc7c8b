//! A thousand shells at once on one name.

#[path = "locks/scene.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod scene;

use std::{fs, process::Child, time::Duration};

use scene::Scene;

const SHELLS: usize = 1000;

/// The owners of the waiters, in order.
fn queue(scene: &Scene) -> Vec<String> {
    let state = scene.show("x");
    let waiting = state.split("\"waiting\":[").nth(1).unwrap_or_default();
    let owners = waiting.split("\"owner\":\"").skip(1);
    owners.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[test]
fn a_thousand_shells_hold_the_lock_one_at_a_time_in_the_order_of_arrival() {
    let scene = Scene::idle_after(Duration::from_secs(60));
    let (account, order) = (scene.path().join("account"), scene.path().join("order"));
    fs::write(&account, "0").expect("written");
    let script = format!(
        "n=$(cat {0}); echo $((n + 1)) > {0}; echo $LOCK_OWNER >> {1}",
        account.display(),
        order.display()
    );
    let mut holder = scene.holder_with("x", &["--ttl", "60"]);
    let start = |number: usize| -> Child {
        // So many processes are slow to renew on a small machine.
        let options = ["-q", "--ttl", "60", "--owner", &number.to_string(), "x"];
        scene.lock(&options, &["sh", "-c", &script]).spawn().expect("run")
    };
    let shells: Vec<_> = (0..SHELLS).map(start).collect();
    while queue(&scene).len() < SHELLS {
        std::thread::sleep(Duration::from_millis(100));
    }
    let arrived = queue(&scene);
    holder.release();
    for mut shell in shells {
        assert_eq!(shell.wait().expect("ended").code(), Some(0));
    }
    assert_eq!(fs::read_to_string(&account).expect("read").trim(), SHELLS.to_string());
    let order = fs::read_to_string(&order).expect("read");
    assert_eq!(order.lines().collect::<Vec<_>>(), arrived);
}
