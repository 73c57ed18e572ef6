/* An OPC UA server. Arguments (name=value):
 *   port=4840   uri=APPLICATION_URI (that of the certificate)   cert=FILE.der key=FILE trust=FILE.der,…  (none: everybody)
 *   namespace=urn:peer:mill   before=N (namespaces registered before it)   user=NAME:PASSWORD   anonymous=1|0
 *   publish-min=5 (ms; what faster publishing and sampling intervals are revised to)   queue-max=100
 * Endpoints: Basic256Sha256, Aes128_Sha256_RsaOaep and Aes256_Sha256_RsaPss; None for discovery only where there is a
 * certificate. Objects/Mill has the variables force (Double), count (Int32), on (Boolean), named by String NodeIds.
 * Standard input: `set NAME VALUE`, `status NAME HEX`, `stamp NAME NANOSECONDS` (source time of the next values of NAME;
 * 0: now), `remove NAME`, `add NAME`; each is answered by `done`; the end of input ends the program. */

#include "peer.h"

#include <open62541/plugin/accesscontrol_default.h>
#include <open62541/server.h>
#include <open62541/server_config_default.h>

#define FIELDS 3
#define MILL "Mill"
#define TRUST_MAX 16
#define TICKS_TO_UNIX 116444736000000000LL

static const char *const names[FIELDS] = {"force", "count", "on"};
static const size_t types[FIELDS] = {UA_TYPES_DOUBLE, UA_TYPES_INT32, UA_TYPES_BOOLEAN};
static UA_DateTime stamps[FIELDS];
static UA_UInt16 namespace_index;

static UA_NodeId
node(const char *name) {
    return UA_NODEID_STRING(namespace_index, (char *)(uintptr_t)name);
}

static size_t
field_of(const char *name) {
    for(size_t i = 0; i < FIELDS; i++)
        if(strcmp(names[i], name) == 0)
            return i;
    fail("a name that is force, count or on");
    return 0;
}

static void
add_field(UA_Server *server, size_t field) {
    UA_Double force = 22.25;
    UA_Int32 count = 1002;
    UA_Boolean on = true;
    void *first[FIELDS] = {&force, &count, &on};
    const UA_DataType *type = &UA_TYPES[types[field]];
    UA_VariableAttributes attributes = UA_VariableAttributes_default;
    attributes.dataType = type->typeId;
    attributes.valueRank = UA_VALUERANK_SCALAR;
    attributes.accessLevel = UA_ACCESSLEVELMASK_READ | UA_ACCESSLEVELMASK_WRITE;
    UA_Variant_setScalar(&attributes.value, first[field], type);
    must(UA_Server_addVariableNode(server, node(names[field]), node(MILL), UA_NS0ID(HASCOMPONENT),
                                   UA_QUALIFIEDNAME(namespace_index, (char *)(uintptr_t)names[field]),
                                   UA_NS0ID(BASEDATAVARIABLETYPE), attributes, NULL, NULL),
         "add a variable");
}

static void
add_mill(UA_Server *server, int argc, char **argv) {
    long before = number(argc, argv, "before", 0);
    for(long i = 0; i < before; i++) {
        char uri[48];
        snprintf(uri, sizeof(uri), "urn:peer:before:%ld", i);
        UA_Server_addNamespace(server, uri);
    }
    namespace_index = UA_Server_addNamespace(server, option(argc, argv, "namespace", "urn:peer:mill"));
    UA_ObjectAttributes attributes = UA_ObjectAttributes_default;
    must(UA_Server_addObjectNode(server, node(MILL), UA_NS0ID(OBJECTSFOLDER), UA_NS0ID(ORGANIZES),
                                 UA_QUALIFIEDNAME(namespace_index, MILL), UA_NS0ID(BASEOBJECTTYPE), attributes, NULL,
                                 NULL),
         "add the mill");
    for(size_t i = 0; i < FIELDS; i++)
        add_field(server, i);
}

static void
write_field(UA_Server *server, size_t field, const char *text, const char *status) {
    UA_Double force = text ? strtod(text, NULL) : 0.0;
    UA_Int32 count = text ? (UA_Int32)strtol(text, NULL, 0) : 0;
    UA_Boolean on = text && strcmp(text, "true") == 0;
    void *values[FIELDS] = {&force, &count, &on};
    UA_DataValue data;
    UA_DataValue_init(&data);
    if(text) {
        UA_Variant_setScalar(&data.value, values[field], &UA_TYPES[types[field]]);
        data.hasValue = true;
    } else {
        data.status = (UA_StatusCode)strtoul(status, NULL, 16);
        data.hasStatus = true;
        must(UA_Server_readValue(server, node(names[field]), &data.value), "read a variable");
        data.hasValue = true;
    }
    data.sourceTimestamp = stamps[field] ? stamps[field] : UA_DateTime_now();
    data.hasSourceTimestamp = true;
    must(UA_Server_writeDataValue(server, node(names[field]), data), "write a variable");
    if(!text)
        UA_Variant_clear(&data.value);
}

static void
obey(UA_Server *server, char *line) {
    char *verb = strtok(line, " "), *name = strtok(NULL, " "), *value = strtok(NULL, " ");
    if(!verb || !name)
        fail("a command and a name");
    size_t field = field_of(name);
    if(strcmp(verb, "set") == 0 && value)
        write_field(server, field, value, NULL);
    else if(strcmp(verb, "status") == 0 && value)
        write_field(server, field, NULL, value);
    else if(strcmp(verb, "stamp") == 0 && value)
        stamps[field] = strcmp(value, "0") == 0 ? 0 : strtoll(value, NULL, 0) / 100 + TICKS_TO_UNIX;
    else if(strcmp(verb, "remove") == 0)
        must(UA_Server_deleteNode(server, node(name), true), "delete a node");
    else if(strcmp(verb, "add") == 0)
        add_field(server, field);
    else
        fail("set, status, stamp, remove or add");
}

static void
access_control(UA_ServerConfig *config, int argc, char **argv) {
    const char *user = option(argc, argv, "user", NULL);
    UA_UsernamePasswordLogin login;
    size_t logins = 0;
    if(user) {
        char *name = strdup(user), *password = strchr(name, ':');
        if(!password)
            fail("user=NAME:PASSWORD");
        *password++ = 0;
        login.username = UA_STRING(name);
        login.password = UA_BYTESTRING(password);
        logins = 1;
    }
    if(config->accessControl.clear)
        config->accessControl.clear(&config->accessControl);
    must(UA_AccessControl_default(config, number(argc, argv, "anonymous", 1) != 0, NULL, logins, &login), "users");
}

static UA_Server *
make_server(int argc, char **argv) {
    UA_ByteString trust[TRUST_MAX];
    size_t trusted = whole_list(option(argc, argv, "trust", NULL), trust, TRUST_MAX);
    UA_ByteString certificate = whole(option(argc, argv, "cert", NULL));
    UA_ByteString key = whole(option(argc, argv, "key", NULL));
    UA_UInt16 port = (UA_UInt16)number(argc, argv, "port", 4840);
    UA_ServerConfig config;
    memset(&config, 0, sizeof(config));
    config.logging = &peer_logger;
    if(certificate.length == 0) {
        must(UA_ServerConfig_setMinimal(&config, port, NULL), "configure");
    } else {
        must(UA_ServerConfig_setDefaultWithSecurityPolicies(&config, port, &certificate, &key, trust, trusted, NULL, 0,
                                                            NULL, 0),
             "configure with certificates");
        config.securityPolicyNoneDiscoveryOnly = true;
    }
    UA_String_clear(&config.applicationDescription.applicationUri);
    config.applicationDescription.applicationUri = UA_STRING_ALLOC(option(argc, argv, "uri", "urn:peer:server"));
    UA_Double fastest = (UA_Double)number(argc, argv, "publish-min", 5);
    config.publishingIntervalLimits.min = fastest;
    config.samplingIntervalLimits.min = fastest;
    config.queueSizeLimits.max = (UA_UInt32)number(argc, argv, "queue-max", 100);
    access_control(&config, argc, argv);
    UA_Server *server = UA_Server_newWithConfig(&config);
    if(!server)
        fail("no server");
    return server;
}

int
main(int argc, char **argv) {
    UA_Server *server = make_server(argc, argv);
    add_mill(server, argc, argv);
    must(UA_Server_run_startup(server), "start");
    tell("ready");
    char line[LINE_BYTES];
    for(int got = 0; got >= 0;) {
        UA_UInt16 wait_ms = UA_Server_run_iterate(server, false);
        got = next_line(line, wait_ms < 2 ? wait_ms : 2);
        if(got <= 0)
            continue;
        obey(server, line);
        tell("done");
    }
    UA_Server_run_shutdown(server);
    UA_Server_delete(server);
    return 0;
}
