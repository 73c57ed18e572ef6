// Proves one witness with snarkjs, again and again: node snarkjs_peer.cjs MODULES FOLDER COUNT
//
// MODULES is the node_modules folder that holds snarkjs (GPL-3.0; a separate process, no part of the product). FOLDER
// holds circuit.r1cs and circuit.wtns and receives circuit.zkey. Keys come from a throw-away ceremony. The proving
// key stays in memory; only groth16.prove is timed. Prints one JSON object.
"use strict";

const fs = require("fs");
const path = require("path");
const { performance } = require("perf_hooks");

const [modules, folder, countText] = process.argv.slice(2);
const snarkjs = require(path.join(path.resolve(modules), "snarkjs"));
const version = JSON.parse(fs.readFileSync(path.join(modules, "snarkjs", "package.json"))).version;
const WARM_UP = 3;

const memory = () => ({ type: "mem" });

async function makeKeys(r1cs, power) {
  const curve = await snarkjs.curves.getCurveFromName("bn128");
  const [tau0, tau1, tau2, key0, key1] = Array.from({ length: 5 }, memory);
  await snarkjs.powersOfTau.newAccumulator(curve, power, tau0);
  await snarkjs.powersOfTau.contribute(tau0, tau1, "bench", "entropy of a benchmark");
  await snarkjs.powersOfTau.preparePhase2(tau1, tau2);
  await snarkjs.zKey.newZKey(r1cs, tau2, key0);
  await snarkjs.zKey.contribute(key0, key1, "bench", "entropy of a benchmark");
  return key1;
}

async function main() {
  const r1cs = path.join(folder, "circuit.r1cs");
  const info = await snarkjs.r1cs.info(r1cs);
  const rows = info.nConstraints + info.nPubInputs + info.nOutputs + 1;
  const key = await makeKeys(r1cs, Math.ceil(Math.log2(rows)));
  fs.writeFileSync(path.join(folder, "circuit.zkey"), Buffer.from(key.data));
  const verification = await snarkjs.zKey.exportVerificationKey(key);
  const witness = { type: "mem", data: new Uint8Array(fs.readFileSync(path.join(folder, "circuit.wtns"))) };
  const cpu = [], wall = [];
  let last;
  for (let i = 0; i < WARM_UP + Number(countText); i++) {
    const started = performance.now(), before = process.cpuUsage();
    last = await snarkjs.groth16.prove(key, witness);
    const used = process.cpuUsage(before);
    if (i >= WARM_UP) {
      cpu.push((used.user + used.system) / 1000);
      wall.push(performance.now() - started);
    }
  }
  if (!(await snarkjs.groth16.verify(verification, last.publicSignals, last.proof))) throw new Error("no proof");
  console.log(JSON.stringify({ version, cpu_ms: cpu, wall_ms: wall, constraints: info.nConstraints }));
}

main().then(() => process.exit(0), (error) => { console.error(error.stack || error); process.exit(1); });
