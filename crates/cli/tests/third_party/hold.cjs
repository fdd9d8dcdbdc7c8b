// Holds a lock, or leads an election, with the npm package etcd3 until standard input ends.
//
//     hold.cjs lock|elect NAME VALUE HOST:PORT...
//
// Prints "held" when it holds the lock. Its Lock does not wait, so it is tried again and again.
const { Etcd3, EtcdLockFailedError } = require("etcd3");

const [kind, name, value, ...hosts] = process.argv.slice(2);
const client = new Etcd3({ hosts });
const ended = new Promise((done) => {
  process.stdin.on("end", done);
  process.stdin.resume();
});

async function lock() {
  for (;;) {
    const one = client.lock(name).ttl(3);
    try {
      await one.acquire();
      return () => one.release();
    } catch (error) {
      if (!(error instanceof EtcdLockFailedError)) throw error;
      await new Promise((done) => setTimeout(done, 50));
    }
  }
}

async function elect() {
  const campaign = client.election(name, 3).campaign(value);
  await campaign.wait();
  return () => campaign.resign();
}

(kind === "elect" ? elect() : lock())
  .then(async (release) => {
    console.log("held");
    await ended;
    await release();
    process.exit(0);
  })
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
