// node-opcua's server for the interoperability tests. Arguments: folder of the installation, port, folder with
// plc.der, plc.key.pem and trusted/. Prints `ready`; each line of its input is `write NAME VALUE [STATUS]`, `state N`,
// or `cut`, answered by `ok`; the end of input ends it.
"use strict";

const { createRequire } = require("node:module");
const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");

const [installation, port, folder] = process.argv.slice(2);
const load = createRequire(path.join(installation, "node_modules", "node-opcua-server", "package.json"));
const { OPCUAServer } = load("node-opcua-server");
const { OPCUACertificateManager } = load("node-opcua-certificate-manager");
const { MessageSecurityMode, SecurityPolicy } = load("node-opcua-secure-channel");
const { StatusCodes } = load("node-opcua-status-code");
const { DataType, Variant } = load("node-opcua-variant");
const { nodesets } = load("node-opcua-nodesets");

async function main() {
  const pki = path.join(folder, "node-opcua-pki");
  const trusted = path.join(pki, "trusted", "certs");
  fs.mkdirSync(trusted, { recursive: true });
  for (const name of fs.readdirSync(path.join(folder, "trusted"))) {
    fs.copyFileSync(path.join(folder, "trusted", name), path.join(trusted, name));
  }
  // node-opcua wants the certificate as PEM.
  const der = fs.readFileSync(path.join(folder, "plc.der")).toString("base64");
  const certificateFile = path.join(pki, "plc.pem");
  fs.writeFileSync(certificateFile, `-----BEGIN CERTIFICATE-----\n${der.match(/.{1,64}/g).join("\n")}\n-----END CERTIFICATE-----\n`);
  const manager = new OPCUACertificateManager({ rootFolder: pki, automaticallyAcceptUnknownCertificate: false });
  await manager.initialize();
  const server = new OPCUAServer({
    port: Number(port),
    host: "127.0.0.1",
    hostname: "127.0.0.1",
    certificateFile,
    privateKeyFile: path.join(folder, "plc.key.pem"),
    serverCertificateManager: manager,
    userCertificateManager: manager,
    nodeset_filename: [nodesets.standard],
    securityPolicies: [SecurityPolicy.Basic256Sha256, SecurityPolicy.Aes256_Sha256_RsaPss],
    securityModes: [MessageSecurityMode.SignAndEncrypt],
    allowAnonymous: true,
    userManager: { isValidUser: (name, password) => name === "anna" && password === "correct horse" },
    serverInfo: { applicationUri: "urn:tests:plc" },
  });
  await server.initialize();
  const space = server.engine.addressSpace;
  const own = space.registerNamespace("urn:tests:mill");
  const mill = own.addObject({ browseName: "Mill", organizedBy: space.rootFolder.objects });
  const nodes = {};
  for (const name of ["Gap", "Speed"]) {
    nodes[name] = own.addVariable({ browseName: name, componentOf: mill, dataType: "Double" });
  }
  nodes.Level = own.addAnalogDataItem({
    browseName: "Level",
    componentOf: mill,
    dataType: "Double",
    engineeringUnitsRange: { low: 0, high: 200 },
    valuePrecision: 0.1,
  });
  const write = (name, value, status) =>
    nodes[name].setValueFromSource(
      new Variant({ dataType: DataType.Double, value: Number(value) }),
      status ? StatusCodes[status] : StatusCodes.Good,
      new Date(),
    );
  for (const name of Object.keys(nodes)) write(name, 0);
  await server.start();
  console.log("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...rest] = line.split(" ");
    if (command === "write") write(...rest);
    if (command === "state") server.engine.setServerState(Number(rest[0]));
    if (command === "cut") for (const endpoint of server.endpoints) await endpoint.abruptlyInterruptChannels();
    console.log("ok");
  }
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
