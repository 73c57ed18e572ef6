// node-opcua as an OPC UA client for the tests: one JSON object a line in, one a line out (see tests/support/opcua_peers.py).
"use strict";
const fs = require("fs");
const path = require("path");
const readline = require("readline");
const modules = path.join(process.argv[2], "node_modules");
const opcua = require(path.join(modules, "node-opcua-client"));
const { OPCUACertificateManager } = require(path.join(modules, "node-opcua-certificate-manager"));

let client = null;
let session = null;
let subscription = null;
const events = [];
const waiting = [];

const policies = {
  Basic256Sha256: opcua.SecurityPolicy.Basic256Sha256,
  Aes256_Sha256_RsaPss: opcua.SecurityPolicy.Aes256_Sha256_RsaPss,
  None: opcua.SecurityPolicy.None,
};

function plain(value) {
  if (value === null || value === undefined) return null;
  if (Buffer.isBuffer(value)) return { hex: value.toString("hex") };
  if (value instanceof Date) return value.toISOString();
  if (value instanceof opcua.NodeId) return value.toString();
  if (value instanceof opcua.LocalizedText) return value.text;
  // 64-bit integers are [high, low]
  if (Array.isArray(value) && value.length === 2 && value.every(Number.isInteger)) return value[0] * 2 ** 32 + value[1];
  if (ArrayBuffer.isView(value)) return Array.from(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === "object" && "_value" in value) return value._value;
  return value;
}

const variant = {
  text: (v) => ({ dataType: opcua.DataType.String, value: v }),
  localized: (v) => ({ dataType: opcua.DataType.LocalizedText, value: opcua.coerceLocalizedText(v) }),
  hex: (v) => ({ dataType: opcua.DataType.ByteString, value: Buffer.from(v, "hex") }),
  int32: (v) => ({ dataType: opcua.DataType.Int32, value: v }),
  uint32: (v) => ({ dataType: opcua.DataType.UInt32, value: v }),
  uint64: (v) => ({ dataType: opcua.DataType.UInt64, arrayType: opcua.VariantArrayType.Scalar, value: [Math.floor(v / 2 ** 32), v % 2 ** 32] }),
};

const acts = {
  async connect({ url, policy, folder, name, server, user, password }) {
    const manager = new OPCUACertificateManager({
      rootFolder: path.join(folder, `${name}-pki`),
      automaticallyAcceptUnknownCertificate: false,
    });
    await manager.initialize();
    await manager.trustCertificate(fs.readFileSync(server));
    client = opcua.OPCUAClient.create({
      applicationName: name,
      securityMode: policy === "None" ? opcua.MessageSecurityMode.None : opcua.MessageSecurityMode.SignAndEncrypt,
      securityPolicy: policies[policy],
      certificateFile: path.join(folder, `${name}.der`),
      privateKeyFile: path.join(folder, `${name}.key.pem`),
      clientCertificateManager: manager,
      endpointMustExist: false,
      connectionStrategy: { maxRetry: 0, initialDelay: 100, maxDelay: 200 },
    });
    await client.connect(url);
    const identity = user
      ? { type: opcua.UserTokenType.UserName, userName: user, password }
      : { type: opcua.UserTokenType.Anonymous };
    session = await client.createSession(identity);
    return {};
  },
  async read({ ids }) {
    const values = await session.read(ids.map((nodeId) => ({ nodeId, attributeId: opcua.AttributeIds.Value })));
    return { values: values.map((v) => plain(v.value && v.value.value)), status: values.map((v) => v.statusCode.name) };
  },
  async write({ id, int32 }) {
    const value = { value: { dataType: opcua.DataType.Int32, value: int32 } };
    const status = await session.write({ nodeId: id, attributeId: opcua.AttributeIds.Value, value });
    return { status: status.name };
  },
  async call({ object, method, args }) {
    const inputArguments = args.map(([kind, value]) => variant[kind](value));
    const result = await session.call({ objectId: object, methodId: method, inputArguments });
    return {
      status: result.statusCode.name,
      outputs: (result.outputArguments || []).map((v) =>
        v.arrayType === opcua.VariantArrayType.Array ? Array.from(v.value, plain) : plain(v.value)
      ),
    };
  },
  async subscribe({ fields, type }) {
    subscription = await session.createSubscription2({
      requestedPublishingInterval: 100,
      requestedLifetimeCount: 600,
      requestedMaxKeepAliveCount: 10,
      publishingEnabled: true,
      maxNotificationsPerPublish: 100,
    });
    const filter = opcua.constructEventFilter(fields, opcua.ofType(opcua.resolveNodeId(type)));
    filter.selectClauses.push(
      new opcua.SimpleAttributeOperand({
        attributeId: opcua.AttributeIds.NodeId,
        browsePath: [],
        typeDefinitionId: opcua.resolveNodeId("i=2782"),
      })
    );
    const item = await subscription.monitor(
      { nodeId: opcua.resolveNodeId("i=2253"), attributeId: opcua.AttributeIds.EventNotifier },
      { samplingInterval: 0, queueSize: 100, discardOldest: true, filter },
      opcua.TimestampsToReturn.Both
    );
    item.on("changed", (values) => {
      const event = Object.fromEntries([...fields, "ConditionId"].map((name, i) => [name, plain(values[i].value)]));
      const next = waiting.shift();
      if (next) next(event);
      else events.push(event);
    });
    return { subscription: subscription.subscriptionId };
  },
  async event({ timeout }) {
    if (events.length) return { event: events.shift() };
    const event = await new Promise((resolve) => {
      waiting.push(resolve);
      setTimeout(() => resolve(null), 1000 * timeout).unref();
    });
    return { event };
  },
  async close() {
    if (session) await session.close();
    if (client) await client.disconnect();
    return {};
  },
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { do: name, ...more } = JSON.parse(line);
    let answer;
    try {
      answer = { ok: true, ...(await acts[name](more)) };
    } catch (error) {
      answer = { ok: false, error: String(error.message || error) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
    if (name === "close") break;
  }
  process.exit(0);
}

main();
