/* A UADP subscriber. Arguments as of the publisher (url, interface, pid, encoding, sets, network, message, version, security,
 * policy, key; size=BYTES, offset=BYTES where a reader of RawData needs them). Prints `[set, force, count, on]` for every
 * new set of values. Standard input: `key TOKEN HEX`; its end ends the program. */

#include "pubsub.h"

static void
metadata(UA_DataSetMetaDataType *out, UA_FieldMetaData fields[FIELDS]) {
    UA_DataSetMetaDataType_init(out);
    out->name = UA_STRING("set");
    out->fields = fields;
    out->fieldsSize = FIELDS;
    for(size_t i = 0; i < FIELDS; i++) {
        UA_FieldMetaData_init(&fields[i]);
        fields[i].name = UA_STRING((char *)(uintptr_t)field_names[i]);
        fields[i].dataType = UA_TYPES[field_types[i]].typeId;
        fields[i].builtInType = (UA_Byte)(UA_TYPES[field_types[i]].typeKind + 1);
        fields[i].valueRank = UA_VALUERANK_SCALAR;
    }
}

static void
add_reader(UA_Server *server, UA_NodeId group, int argc, char **argv, size_t set) {
    UA_FieldMetaData fields[FIELDS];
    UA_FieldTargetDataType targets[FIELDS];
    UA_UadpDataSetReaderMessageDataType message;
    UA_UadpDataSetReaderMessageDataType_init(&message);
    message.networkMessageContentMask = (UA_UInt32)number(argc, argv, "network", 0xc7);
    message.dataSetMessageContentMask = (UA_UInt32)number(argc, argv, "message", 0x25);
    message.groupVersion = (UA_UInt32)number(argc, argv, "version", 0);
    UA_DataSetReaderConfig config;
    memset(&config, 0, sizeof(config));
    config.name = UA_STRING("reader");
    config.publisherId = publisher_id(option(argc, argv, "pid", "uint16:2234"));
    config.writerGroupId = GROUP;
    config.dataSetWriterId = (UA_UInt16)(FIRST_WRITER + set);
    config.dataSetFieldContentMask = field_mask(option(argc, argv, "encoding", "variant"));
    config.messageReceiveTimeout = 0.0;
    metadata(&config.dataSetMetaData, fields);
    UA_ExtensionObject_setValue(&config.messageSettings, &message,
                                &UA_TYPES[UA_TYPES_UADPDATASETREADERMESSAGEDATATYPE]);
    for(size_t i = 0; i < FIELDS; i++) {
        UA_FieldTargetDataType_init(&targets[i]);
        targets[i].attributeId = UA_ATTRIBUTEID_VALUE;
        targets[i].targetNodeId = field_node(set, i);
    }
    config.subscribedDataSetType = UA_PUBSUB_SDS_TARGET;
    config.subscribedDataSet.target.targetVariables = targets;
    config.subscribedDataSet.target.targetVariablesSize = FIELDS;
    must(UA_Server_addDataSetReader(server, group, &config, NULL), "add a reader");
}

static UA_NodeId
add_group(UA_Server *server, UA_NodeId connection, int argc, char **argv) {
    UA_ReaderGroupConfig config;
    memset(&config, 0, sizeof(config));
    config.name = UA_STRING("group");
    config.encodingMimeType = UA_PUBSUB_ENCODING_UADP;
    config.securityMode = security_mode(option(argc, argv, "security", "none"));
    if(config.securityMode != UA_MESSAGESECURITYMODE_NONE)
        config.securityPolicy = UA_Server_getConfig(server)->pubSubConfig.securityPolicies;
    UA_NodeId group;
    must(UA_Server_addReaderGroup(server, connection, &config, &group), "add the group");
    if(config.securityMode != UA_MESSAGESECURITYMODE_NONE)
        install_key(server, group, UA_Server_setReaderGroupEncryptionKeys, option(argc, argv, "key", ""));
    return group;
}

static void
show(UA_Server *server, size_t sets) {
    static char last[SETS_MAX][160];
    for(size_t set = 0; set < sets; set++) {
        UA_Variant values[FIELDS];
        char line[160];
        for(size_t i = 0; i < FIELDS; i++)
            must(UA_Server_readValue(server, field_node(set, i), &values[i]), "read a variable");
        snprintf(line, sizeof(line), "[%zu, %.17g, %d, %s]", set, *(UA_Double *)values[0].data,
                 *(UA_Int32 *)values[1].data, *(UA_Boolean *)values[2].data ? "true" : "false");
        for(size_t i = 0; i < FIELDS; i++)
            UA_Variant_clear(&values[i]);
        if(strcmp(line, last[set]) == 0)
            continue;
        memcpy(last[set], line, sizeof(line));
        tell(line);
    }
}

int
main(int argc, char **argv) {
    size_t sets = (size_t)number(argc, argv, "sets", 1);
    if(sets < 1 || sets > SETS_MAX)
        fail("sets: 1 to 4");
    UA_Server *server = pubsub_server(option(argc, argv, "policy", "aes128"), false);
    add_fields(server, sets);
    UA_NodeId connection = add_connection(server, argc, argv, publisher_id("uint16:1"));
    UA_NodeId group = add_group(server, connection, argc, argv);
    for(size_t set = 0; set < sets; set++)
        add_reader(server, group, argc, argv, set);
    must(UA_Server_enableAllPubSubComponents(server), "enable");
    tell("ready");
    char line[LINE_BYTES];
    for(int got = 0; got >= 0;) {
        UA_UInt16 wait_ms = UA_Server_run_iterate(server, false);
        show(server, sets);
        got = next_line(line, wait_ms < 5 ? wait_ms : 5);
        if(got <= 0)
            continue;
        if(strncmp(line, "key ", 4) != 0)
            fail("key …");
        install_key(server, group, UA_Server_setReaderGroupEncryptionKeys, line + 4);
        tell("done");
    }
    UA_Server_run_shutdown(server);
    UA_Server_delete(server);
    return 0;
}
