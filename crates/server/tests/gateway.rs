//! etcd's JSON gateway as curl and scripts use it, over TCP.

#[path = "support/server.rs"]
mod server;

use std::net::SocketAddr;

use mutua_client::proto::{
    v1::{ListRequest, locks_client::LocksClient},
    v3lockpb::{LockRequest, lock_client::LockClient},
};
use mutua_node::{AccessRule, Config};
use serde_json::{Value, json};
use server::Server;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// A server that is reached by HTTP.
struct Gateway {
    server: Server,
    address: SocketAddr,
}

/// A response of HTTP.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }
}

impl Gateway {
    async fn start() -> Self {
        Self::start_with(Vec::new()).await
    }

    async fn start_with(access: Vec<AccessRule>) -> Self {
        let address = mutua_host::free_addresses(1).expect("a free port")[0];
        let server = Server::start_with(|options| {
            options.tcp = Some(address);
            options.node.access = access;
        })
        .await;
        while TcpStream::connect(address).await.is_err() {
            tokio::task::yield_now().await;
        }
        Self { server, address }
    }

    /// A connection on which this was sent.
    async fn send(&self, text: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await.expect("connected");
        stream.write_all(text.as_bytes()).await.expect("written");
        BufReader::new(stream)
    }

    /// A request with these lines in its head.
    async fn request(&self, first: &str, lines: &[&str], body: &str) -> Answer {
        let (lines, length) = (lines.join("\r\n"), body.len());
        let text = format!(
            "{first} HTTP/1.1\r\n{lines}\r\nConnection: close\r\nContent-Length: {length}\r\n\
             \r\n{body}"
        );
        let mut whole = String::new();
        self.send(&text).await.read_to_string(&mut whole).await.expect("read");
        let (head, body) = whole.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        let lines = ["Host: localhost", "Content-Type: application/json"];
        self.request(&format!("POST {path}"), &lines, &body.to_string()).await
    }

    async fn done(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    /// The lines of a response whose body is a stream.
    async fn stream(&self, path: &str, body: &Value) -> BufReader<TcpStream> {
        let body = body.to_string();
        let length = body.len();
        let mut stream = self
            .send(&format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            ))
            .await;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).await.expect("read");
        }
        stream
    }

    async fn lease(&self) -> String {
        let granted = self.done("/v3/lease/grant", &json!({ "TTL": 60 })).await;
        granted["ID"].as_str().expect("a string, since it has 64 bits").to_owned()
    }

    async fn lock(&self, lease: &str) -> Value {
        self.done("/v3/lock/lock", &json!({ "name": "eA==", "lease": lease })).await
    }

    async fn locks(&self) -> Vec<mutua_client::proto::v1::Lock> {
        let mut client = LocksClient::new(self.server.channel.clone());
        client.list(ListRequest::default()).await.expect("listed").into_inner().locks
    }
}

/// The next line of a stream, in chunks of one line each.
async fn result(stream: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).await.expect("read") > 0, "the stream ended");
        if line.starts_with('{') {
            return serde_json::from_str(&line).expect("JSON");
        }
    }
}

fn token(response: &Value) -> u64 {
    response["header"]["revision"].as_str().expect("text").parse().expect("a number")
}

#[tokio::test]
async fn locks_are_acquired_and_released_by_json() {
    let gateway = Gateway::start().await;
    let (one, two) = (gateway.lease().await, gateway.lease().await);
    let first = gateway.lock(&one).await;
    let waits = gateway.lock(&two);
    let unlock = async {
        while gateway.locks().await[0].waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        gateway.done("/v3/lock/unlock", &json!({ "key": first["key"] })).await;
    };
    let (second, ()) = tokio::join!(waits, unlock);
    assert!(token(&second) > token(&first), "fencing tokens grow");
    let left = gateway.done("/v3/lease/timetolive", &json!({ "ID": two, "keys": true })).await;
    assert_eq!((&left["grantedTTL"], &left["keys"][0]), (&json!("60"), &second["key"]));
    let mut grpc = LockClient::new(gateway.server.channel.clone());
    let lease = gateway.server.lease_of(60).await;
    let two = json!({ "ID": two });
    let revoke = gateway.done("/v3/kv/lease/revoke", &two);
    let locked = grpc.lock(LockRequest { name: b"x".to_vec(), lease });
    let (locked, _) = tokio::join!(locked, revoke);
    let revision = locked.expect("locked").into_inner().header.expect("a header").revision;
    assert!(revision.unsigned_abs() > token(&second), "the same lock by gRPC");
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_the_queue() {
    let gateway = Gateway::start().await;
    let (one, two) = (gateway.lease().await, gateway.lease().await);
    gateway.lock(&one).await;
    let body = json!({ "name": "eA==", "lease": two }).to_string();
    let waits = gateway
        .send(&format!(
            "POST /v3/lock/lock HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    while gateway.locks().await[0].waiting.is_empty() {
        tokio::task::yield_now().await;
    }
    drop(waits);
    while !gateway.locks().await[0].waiting.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn streams_are_lines_of_json() {
    let gateway = Gateway::start().await;
    let lease = gateway.lease().await;
    let mut alive = gateway.stream("/v3/lease/keepalive", &json!({ "ID": lease })).await;
    let renewed = result(&mut alive).await;
    assert_eq!(
        (&renewed["result"]["ID"], &renewed["result"]["TTL"]),
        (&json!(lease), &json!("60"))
    );
    let first = gateway.lock(&lease).await;
    let watch = json!({ "create_request": { "key": first["key"] } });
    let mut watch = gateway.stream("/v3/watch", &watch).await;
    assert_eq!(result(&mut watch).await["result"]["created"], true);
    gateway.done("/v3/lock/unlock", &json!({ "key": first["key"] })).await;
    let event = &result(&mut watch).await["result"]["events"][0];
    assert_eq!((&event["type"], &event["kv"]["key"]), (&json!("DELETE"), &first["key"]));
}

#[tokio::test]
async fn elections_are_held_by_json() {
    let gateway = Gateway::start().await;
    let none = gateway.post("/v3/election/leader", &json!({ "name": "ZQ==" })).await;
    assert_eq!((none.status, none.json()["message"].as_str()), (500, Some("election: no leader")));
    let mut observed = gateway.stream("/v3/election/observe", &json!({ "name": "ZQ==" })).await;
    let campaign = json!({ "name": "ZQ==", "lease": gateway.lease().await, "value": "YQ==" });
    let leader = gateway.done("/v3/election/campaign", &campaign).await["leader"].clone();
    assert_eq!(result(&mut observed).await["result"]["kv"]["value"], "YQ==");
    gateway.done("/v3/election/proclaim", &json!({ "leader": leader, "value": "Yg==" })).await;
    assert_eq!(result(&mut observed).await["result"]["kv"]["value"], "Yg==");
    gateway.done("/v3/election/resign", &json!({ "leader": leader })).await;
    let none = gateway.post("/v3/election/leader", &json!({ "name": "ZQ==" })).await;
    assert_eq!(none.status, 500);
}

#[tokio::test]
async fn etcds_recipes_are_transactions_by_json() {
    let gateway = Gateway::start().await;
    let create = async |lease: &str| {
        let compare = json!({ "key": "eA==", "target": "CREATE", "create_revision": 0 });
        let put = json!({ "request_put": { "key": "eA==", "value": "dg==", "lease": lease } });
        let read = json!({ "request_range": { "key": "eA==" } });
        let txn = json!({ "compare": [compare], "success": [put], "failure": [read] });
        gateway.done("/v3/kv/txn", &txn).await
    };
    let (one, two) = (gateway.lease().await, gateway.lease().await);
    assert_eq!(create(&one).await["succeeded"], true);
    let refused = create(&two).await;
    assert_eq!(refused.get("succeeded"), None, "false is left out");
    assert_eq!(refused["responses"][0]["response_range"]["kvs"][0]["value"], "dg==");
    let held = gateway.done("/v3/kv/range", &json!({ "key": "eA==" })).await;
    assert_eq!((&held["kvs"][0]["lease"], &held["count"]), (&json!(one), &json!("1")));
    let deleted = gateway.done("/v3/kv/deleterange", &json!({ "key": "eA==" })).await;
    assert_eq!(deleted["deleted"], "1");
    let put = gateway.post("/v3/kv/put", &json!({ "key": "eA==", "value": "dg==" })).await;
    assert_eq!((put.status, &put.json()["code"]), (501, &json!(12)), "not a key-value store");
}

#[tokio::test]
async fn no_web_page_can_lock() {
    let gateway = Gateway::start().await;
    let lease = gateway.lease().await;
    let body = json!({ "name": "eA==", "lease": lease }).to_string();
    let (here, json) = ("Host: localhost", "Content-Type: application/json");
    let origin = "Origin: http://evil.example";
    for (first, lines, status) in [
        // What a page can send without asking first.
        ("POST /v3/lock/lock", &[here, "Content-Type: text/plain"][..], 415),
        ("POST /v3/lock/lock", &[here, "Content-Type: application/x-www-form-urlencoded"], 415),
        ("POST /v3/lock/lock", &[here, origin], 403),
        ("GET /v3/lock/lock", &[here, json], 405),
        // It asks, and is not allowed.
        ("OPTIONS /v3/lock/lock", &[here, origin, "Access-Control-Request-Method: POST"], 403),
        ("POST /v3/lock/lock", &[here, json, origin], 403),
        // Its own name leads to this machine.
        ("POST /v3/lock/lock", &["Host: evil.example", json], 403),
        ("POST /v3/lock/lock", &["Host: localhost.evil.example:2379", json], 403),
        ("POST /v3/lock/lock", &["Host:", json], 403),
        // Then it could speak gRPC too, but for HTTP/2.
        ("POST /v3lockpb.Lock/Lock", &[here, "Content-Type: application/grpc"], 404),
    ] {
        let answer = gateway.request(first, lines, &body).await;
        assert_eq!(answer.status, status, "{first} {lines:?}: {}", answer.body);
        assert!(!answer.head.contains("access-control"), "{}", answer.head);
        assert!(gateway.locks().await.is_empty(), "nothing is locked");
    }
    let locked = gateway.request("POST /v3/lock/lock", &[here, json], &body).await;
    assert_eq!(locked.status, 200);
    // Neither can it unlock.
    let key = json!({ "key": locked.json()["key"] }).to_string();
    let refused = gateway.request("POST /v3/lock/unlock", &[here, json, origin], &key).await;
    assert_eq!((refused.status, gateway.locks().await.len()), (403, 1));
    // A program that names no type can.
    let answer = gateway.request("POST /v3/lock/unlock", &[here], &key).await;
    assert_eq!((answer.status, gateway.locks().await.len()), (200, 0));
}

#[tokio::test]
async fn the_rules_of_the_configuration_apply() {
    // The lock `x/cafe` can be taken for a waiter of `x`, whose lease has that number.
    let rules = r#"
cluster = "c"
node = "a"
members = [{ name = "a", address = "localhost:1" }]
access = [
  { clients = "*", names = "open", allow = ["acquire", "list"] },
  { clients = "*", names = "x", allow = "list" },
  { clients = "*", names = "x/cafe", allow = "acquire" },
]
"#;
    let rules = Config::parse(rules, "rules").expect("valid").access;
    let gateway = Gateway::start_with(rules).await;
    let lease = gateway.lease().await;
    let lock = |name: &str| json!({ "name": name, "lease": lease });
    gateway.done("/v3/lock/lock", &lock("b3Blbg==")).await;
    let refused = gateway.post("/v3/lock/lock", &lock("eA==")).await;
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!(7)), "{}", refused.body);
    assert!(refused.body.contains("rule 2 of [[access]]"), "{}", refused.body);
    let refused = gateway.post("/v3/election/campaign", &lock("eA==")).await;
    assert_eq!(refused.status, 403);
    let refused = gateway.post("/v3/election/leader", &json!({ "name": "eQ==" })).await;
    assert_eq!(refused.status, 403);
    let compare = json!({ "key": "eC9jYWZl", "target": "CREATE", "create_revision": 0 });
    let put = json!({ "request_put": { "key": "eC9jYWZl", "lease": lease } });
    let txn = json!({ "compare": [compare], "success": [put] });
    assert_eq!(gateway.done("/v3/kv/txn", &txn).await["succeeded"], true);
    gateway.done("/v3/kv/range", &json!({ "key": "eC9jYWZl" })).await;
    let refused = gateway.post("/v3/kv/range", &json!({ "key": "eS9jYWZl" })).await;
    assert_eq!(refused.status, 403, "neither y nor y/cafe");
}

#[tokio::test]
async fn probes_and_unknown_paths_are_answered() {
    let gateway = Gateway::start().await;
    let get = async |path: &str| gateway.request(&format!("GET {path}"), &["Host: any"], "").await;
    let health = get("/health").await;
    assert_eq!((health.status, &*health.body), (200, r#"{"health":"true"}"#));
    assert!(get("/version").await.json()["etcdserver"].is_string());
    let missing = gateway.post("/v3/kv/compaction", &json!({})).await;
    assert_eq!(missing.status, 404);
    let invalid = gateway.post("/v3/lock/lock", &json!({ "lease": "0x12" })).await;
    assert_eq!((invalid.status, &invalid.json()["code"]), (400, &json!(3)));
    let unknown = gateway.post("/v3/lease/revoke", &json!({ "ID": "77" })).await;
    let text = "etcdserver: requested lease not found";
    assert_eq!((unknown.status, unknown.json()["error"].as_str()), (404, Some(text)));
    // A short request, before which the preface of HTTP/2 is not waited for.
    let mut whole = String::new();
    let mut short = gateway.send("GET / HTTP/1.0\r\n\r\n").await;
    short.read_to_string(&mut whole).await.expect("read");
    assert!(whole.contains(" 403 "), "without a host: {whole}");
    let lines = ["Host: localhost", "Content-Type: application/json", "Grpc-Timeout: 50m"];
    let lease = gateway.lease().await;
    gateway.lock(&lease).await;
    let body = json!({ "name": "eA==", "lease": gateway.lease().await }).to_string();
    let late = gateway.request("POST /v3/lock/lock", &lines, &body).await;
    assert_eq!((late.status, &late.json()["code"]), (504, &json!(4)), "its deadline passes");
}
