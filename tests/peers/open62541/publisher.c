/* A UADP publisher. Arguments (name=value):
 *   url=opc.udp://HOST:PORT/ or opc.eth://MAC[:VID[.PCP]] interface=NAME
 *   pid=uint16:2234   encoding=variant|raw|data-value   sets=1 (DataSetMessages in one NetworkMessage)   interval=20 (ms)
 *   keyframes=1 (every n-th is a key frame)   network=0xc7, message=0x25 (content masks)   version=0 (GroupVersion)
 *   security=none|sign|sign-encrypt   policy=aes128|aes256   key=TOKEN:HEX
 * Standard input: `set N force count on`, `key TOKEN HEX` (from the next message on); its end ends the program. */

#include "pubsub.h"

static UA_NodeId
add_data_set(UA_Server *server, size_t set) {
    static char names[SETS_MAX][8];
    snprintf(names[set], sizeof(names[set]), "set%zu", set);
    UA_PublishedDataSetConfig config;
    memset(&config, 0, sizeof(config));
    config.name = UA_STRING(names[set]);
    config.publishedDataSetType = UA_PUBSUB_DATASET_PUBLISHEDITEMS;
    UA_NodeId id;
    must(UA_Server_addPublishedDataSet(server, &config, &id).addResult, "add a DataSet");
    for(size_t i = 0; i < FIELDS; i++) {
        /* Fields of a DataSet are inserted in front of each other; from the last one on they end up in order. */
        UA_NodeId field_id;
        UA_DataSetFieldConfig field;
        memset(&field, 0, sizeof(field));
        field.dataSetFieldType = UA_PUBSUB_DATASETFIELD_VARIABLE;
        field.field.variable.fieldNameAlias = UA_STRING((char *)(uintptr_t)field_names[i]);
        field.field.variable.publishParameters.publishedVariable = field_node(set, i);
        field.field.variable.publishParameters.attributeId = UA_ATTRIBUTEID_VALUE;
        must(UA_Server_addDataSetField(server, id, &field, &field_id).result, "add a field");
    }
    return id;
}

static UA_NodeId
add_group(UA_Server *server, UA_NodeId connection, int argc, char **argv, size_t sets) {
    UA_UadpWriterGroupMessageDataType message;
    UA_UadpWriterGroupMessageDataType_init(&message);
    message.networkMessageContentMask = (UA_UInt32)number(argc, argv, "network", 0xc7);
    message.groupVersion = (UA_UInt32)number(argc, argv, "version", 0);
    UA_WriterGroupConfig config;
    memset(&config, 0, sizeof(config));
    config.name = UA_STRING("group");
    config.writerGroupId = GROUP;
    config.publishingInterval = (UA_Double)number(argc, argv, "interval", 20);
    config.keepAliveTime = 1000.0;
    config.encodingMimeType = UA_PUBSUB_ENCODING_UADP;
    config.maxEncapsulatedDataSetMessageCount = (UA_UInt16)sets;
    config.securityMode = security_mode(option(argc, argv, "security", "none"));
    if(config.securityMode != UA_MESSAGESECURITYMODE_NONE)
        config.securityPolicy = UA_Server_getConfig(server)->pubSubConfig.securityPolicies;
    UA_ExtensionObject_setValue(&config.messageSettings, &message, &UA_TYPES[UA_TYPES_UADPWRITERGROUPMESSAGEDATATYPE]);
    UA_NodeId group;
    must(UA_Server_addWriterGroup(server, connection, &config, &group), "add the group");
    if(config.securityMode != UA_MESSAGESECURITYMODE_NONE)
        install_key(server, group, UA_Server_setWriterGroupEncryptionKeys, option(argc, argv, "key", ""));
    return group;
}

static void
add_writer(UA_Server *server, UA_NodeId group, int argc, char **argv, size_t set) {
    UA_UadpDataSetWriterMessageDataType message;
    UA_UadpDataSetWriterMessageDataType_init(&message);
    message.dataSetMessageContentMask = (UA_UInt32)number(argc, argv, "message", 0x25);
    UA_DataSetWriterConfig config;
    memset(&config, 0, sizeof(config));
    config.name = UA_STRING("writer");
    config.dataSetWriterId = (UA_UInt16)(FIRST_WRITER + set);
    config.keyFrameCount = (UA_UInt32)number(argc, argv, "keyframes", 1);
    config.dataSetFieldContentMask = field_mask(option(argc, argv, "encoding", "variant"));
    UA_ExtensionObject_setValue(&config.messageSettings, &message,
                                &UA_TYPES[UA_TYPES_UADPDATASETWRITERMESSAGEDATATYPE]);
    must(UA_Server_addDataSetWriter(server, group, add_data_set(server, set), &config, NULL), "add a writer");
}

int
main(int argc, char **argv) {
    size_t sets = (size_t)number(argc, argv, "sets", 1);
    if(sets < 1 || sets > SETS_MAX)
        fail("sets: 1 to 4");
    UA_Server *server = pubsub_server(option(argc, argv, "policy", "aes128"), number(argc, argv, "keyframes", 1) > 1);
    add_fields(server, sets);
    UA_NodeId connection =
        add_connection(server, argc, argv, publisher_id(option(argc, argv, "pid", "uint16:2234")));
    UA_NodeId group = add_group(server, connection, argc, argv, sets);
    for(size_t set = 0; set < sets; set++)
        add_writer(server, group, argc, argv, set);
    must(UA_Server_enableAllPubSubComponents(server), "enable");
    tell("ready");
    char line[LINE_BYTES];
    for(int got = 0; got >= 0;) {
        UA_UInt16 wait_ms = UA_Server_run_iterate(server, false);
        got = next_line(line, wait_ms < 5 ? wait_ms : 5);
        if(got <= 0)
            continue;
        if(strncmp(line, "set ", 4) == 0 && strlen(line) > 6) {
            set_fields(server, (size_t)(line[4] - '0') % SETS_MAX, line + 6);
        } else if(strncmp(line, "key ", 4) == 0) {
            install_key(server, group, UA_Server_setWriterGroupEncryptionKeys, line + 4);
        } else {
            fail("set N … or key …");
        }
        tell("done");
    }
    UA_Server_run_shutdown(server);
    UA_Server_delete(server);
    return 0;
}
