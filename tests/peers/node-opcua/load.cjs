// Loads a nodeset into node-opcua's address space, after the published ones of the base, DI, IA and Machinery.
// Arguments: a node_modules folder that has node-opcua-address-space and node-opcua-nodesets, the nodeset's file, its URI.
// Prints one JSON object: every node of that namespace by NodeId, what an instance of ApplianceType gets, arguments.
"use strict";

const { createRequire } = require("node:module");
const path = require("node:path");

const [modules, file, uri] = process.argv.slice(2);
const load = createRequire(path.join(modules, "node-opcua-address-space", "package.json"));
const { AddressSpace } = load("node-opcua-address-space");
const { generateAddressSpace } = load("node-opcua-address-space/nodeJS");
const { nodesets } = load("node-opcua-nodesets");
const { NodeClass } = load("node-opcua-data-model");

async function main() {
  const space = AddressSpace.create();
  await generateAddressSpace(space, [nodesets.standard, nodesets.di, nodesets.ia, nodesets.machinery, file]);
  const index = space.getNamespaceIndex(uri);
  const nodes = {};
  for (const node of space.getNamespace(index).nodeIterator()) {
    nodes[String(node.nodeId.value)] = [NodeClass[node.nodeClass], node.browseName.name];
  }
  const type = space.findObjectType("ApplianceType", index);
  const made = type.instantiate({ browseName: "made", organizedBy: space.rootFolder.objects });
  const method = made.getMethodByName("FetchRecord");
  const mode = space.findDataType("OperatingMode", index);
  console.log(JSON.stringify({
    nodes,
    supertype: type.subtypeOfObj.browseName.name,
    components: made.getComponents().map((node) => node.browseName.name).sort(),
    arguments: method.getOutputArguments().map((argument) => argument.name),
    modes: mode.getEnumDefinition().fields.map((field) => field.name),
  }));
  space.dispose();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
