/* The DataSets both UADP peers know, and the parts of a PubSub configuration they share. Set n (from 0) has three fields:
 * force (Double), count (Int32), on (Boolean); its DataSetWriterId is 62541 + n. */

#ifndef PUBSUB_H
#define PUBSUB_H

#include "peer.h"

#include <open62541/plugin/securitypolicy_default.h>
#include <open62541/server.h>
#include <open62541/server_config_default.h>
#include <open62541/server_pubsub.h>

#define FIELDS 3
#define SETS_MAX 4
#define FIRST_WRITER 62541
#define GROUP 100

static const char *const field_names[FIELDS] = {"force", "count", "on"};
static const size_t field_types[FIELDS] = {UA_TYPES_DOUBLE, UA_TYPES_INT32, UA_TYPES_BOOLEAN};

static UA_NodeId
field_node(size_t set, size_t field) {
    return UA_NODEID_NUMERIC(1, (UA_UInt32)(1000 * (set + 1) + field));
}

static void
add_fields(UA_Server *server, size_t sets) {
    UA_Double force = 22.25;
    UA_Int32 count = 1002;
    UA_Boolean on = true;
    void *first[FIELDS] = {&force, &count, &on};
    for(size_t set = 0; set < sets; set++) {
        for(size_t field = 0; field < FIELDS; field++) {
            const UA_DataType *type = &UA_TYPES[field_types[field]];
            UA_VariableAttributes attributes = UA_VariableAttributes_default;
            attributes.dataType = type->typeId;
            attributes.accessLevel = UA_ACCESSLEVELMASK_READ | UA_ACCESSLEVELMASK_WRITE;
            UA_Variant_setScalar(&attributes.value, first[field], type);
            must(UA_Server_addVariableNode(server, field_node(set, field), UA_NS0ID(OBJECTSFOLDER), UA_NS0ID(ORGANIZES),
                                           UA_QUALIFIEDNAME(1, (char *)(uintptr_t)field_names[field]),
                                           UA_NS0ID(BASEDATAVARIABLETYPE), attributes, NULL, NULL),
                 "add a variable");
        }
    }
}

/* One line of three values, as the test gives it, into the variables of a set. */
static inline void
set_fields(UA_Server *server, size_t set, const char *values) {
    UA_Double force;
    UA_Int32 count;
    char word[8] = "";
    if(sscanf(values, "%lf %d %7s", &force, &count, word) != FIELDS)
        fail("values: three of them");
    UA_Boolean on = strcmp(word, "true") == 0;
    void *fields[FIELDS] = {&force, &count, &on};
    for(size_t field = 0; field < FIELDS; field++) {
        UA_Variant value;
        UA_Variant_setScalar(&value, fields[field], &UA_TYPES[field_types[field]]);
        must(UA_Server_writeValue(server, field_node(set, field), value), "write a variable");
    }
}

static UA_PublisherId
publisher_id(const char *text) {
    UA_PublisherId id;
    memset(&id, 0, sizeof(id));
    const char *value = strchr(text, ':');
    if(!value)
        fail("pid=kind:value");
    value++;
    if(strncmp(text, "byte:", 5) == 0) {
        id.idType = UA_PUBLISHERIDTYPE_BYTE;
        id.id.byte = (UA_Byte)strtoul(value, NULL, 0);
    } else if(strncmp(text, "uint16:", 7) == 0) {
        id.idType = UA_PUBLISHERIDTYPE_UINT16;
        id.id.uint16 = (UA_UInt16)strtoul(value, NULL, 0);
    } else if(strncmp(text, "uint32:", 7) == 0) {
        id.idType = UA_PUBLISHERIDTYPE_UINT32;
        id.id.uint32 = (UA_UInt32)strtoul(value, NULL, 0);
    } else if(strncmp(text, "uint64:", 7) == 0) {
        id.idType = UA_PUBLISHERIDTYPE_UINT64;
        id.id.uint64 = strtoull(value, NULL, 0);
    } else if(strncmp(text, "string:", 7) == 0) {
        id.idType = UA_PUBLISHERIDTYPE_STRING;
        id.id.string = UA_STRING((char *)(uintptr_t)value);
    } else {
        fail("pid of kind byte, uint16, uint32, uint64 or string");
    }
    return id;
}

static UA_DataSetFieldContentMask
field_mask(const char *encoding) {
    if(strcmp(encoding, "variant") == 0)
        return UA_DATASETFIELDCONTENTMASK_NONE;
    if(strcmp(encoding, "raw") == 0)
        return UA_DATASETFIELDCONTENTMASK_RAWDATA;
    if(strcmp(encoding, "data-value") == 0)
        return UA_DATASETFIELDCONTENTMASK_STATUSCODE | UA_DATASETFIELDCONTENTMASK_SOURCETIMESTAMP;
    fail("encoding: variant, raw or data-value");
    return 0;
}

static UA_MessageSecurityMode
security_mode(const char *text) {
    if(strcmp(text, "none") == 0)
        return UA_MESSAGESECURITYMODE_NONE;
    if(strcmp(text, "sign") == 0)
        return UA_MESSAGESECURITYMODE_SIGN;
    if(strcmp(text, "sign-encrypt") == 0)
        return UA_MESSAGESECURITYMODE_SIGNANDENCRYPT;
    fail("security: none, sign or sign-encrypt");
    return UA_MESSAGESECURITYMODE_INVALID;
}

/* A running server without listening socket, with the chosen PubSub policy ("aes128" or "aes256"). */
static UA_Server *
pubsub_server(const char *policy, UA_Boolean deltas) {
    UA_ServerConfig config;
    memset(&config, 0, sizeof(config));
    config.logging = &peer_logger;
    must(UA_ServerConfig_setMinimal(&config, 0, NULL), "configure");
    config.tcpEnabled = false;
    config.pubSubConfig.enableDeltaFrames = deltas;
    UA_PubSubSecurityPolicy *policies = (UA_PubSubSecurityPolicy *)UA_calloc(1, sizeof(*policies));
    must(strcmp(policy, "aes256") == 0 ? UA_PubSubSecurityPolicy_Aes256Ctr(policies, config.logging)
                                       : UA_PubSubSecurityPolicy_Aes128Ctr(policies, config.logging),
         "security policy");
    config.pubSubConfig.securityPolicies = policies;
    config.pubSubConfig.securityPoliciesSize = 1;
    UA_Server *server = UA_Server_newWithConfig(&config);
    if(!server)
        fail("no server");
    must(UA_Server_run_startup(server), "start");
    return server;
}

static UA_NodeId
add_connection(UA_Server *server, int argc, char **argv, UA_PublisherId publisher) {
    const char *url = option(argc, argv, "url", "");
    UA_NetworkAddressUrlDataType address;
    address.url = UA_STRING((char *)(uintptr_t)url);
    address.networkInterface = UA_STRING((char *)(uintptr_t)option(argc, argv, "interface", ""));
    UA_PubSubConnectionConfig config;
    memset(&config, 0, sizeof(config));
    config.name = UA_STRING("connection");
    config.transportProfileUri = strncmp(url, "opc.eth://", 10) == 0
        ? UA_STRING("http://opcfoundation.org/UA-Profile/Transport/pubsub-eth-uadp")
        : UA_STRING("http://opcfoundation.org/UA-Profile/Transport/pubsub-udp-uadp");
    config.publisherId = publisher;
    UA_Variant_setScalar(&config.address, &address, &UA_TYPES[UA_TYPES_NETWORKADDRESSURLDATATYPE]);
    UA_NodeId connection;
    must(UA_Server_addPubSubConnection(server, &config, &connection), "add the connection");
    return connection;
}

typedef UA_StatusCode (*SetKeys)(UA_Server *, const UA_NodeId, UA_UInt32, const UA_ByteString, const UA_ByteString,
                                 const UA_ByteString);

/* Key data as GetSecurityKeys hands it out: signing key, encrypting key, key nonce. `text`: token id, then hexadecimal. */
static void
install_key(UA_Server *server, UA_NodeId group, SetKeys set_keys, const char *text) {
    char *hex = NULL;
    UA_UInt32 token = (UA_UInt32)strtoul(text, &hex, 0);
    UA_Byte data[KEY_BYTES_MAX];
    size_t size = unhex(hex + strspn(hex, " :"), data, sizeof(data));
    if(size != 52 && size != 68)
        fail("a key of 52 or 68 bytes");
    UA_ByteString signing = {32, data}, encrypting = {size - 36, data + 32}, nonce = {4, data + size - 4};
    must(set_keys(server, group, token, signing, encrypting, nonce), "set keys");
}

#endif
