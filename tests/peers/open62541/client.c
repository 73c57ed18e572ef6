/* An OPC UA client. Arguments (name=value):
 *   url=opc.tcp://HOST:PORT   policy=None|Basic256Sha256|Aes128_Sha256_RsaOaep|Aes256_Sha256_RsaPss   mode=none|sign|sign-encrypt
 *   uri=APPLICATION_URI   cert=FILE.der key=FILE trust=FILE.der,…   user=NAME:PASSWORD   timeout=5000 (ms)
 * Then what to do, in order; one JSON object a line:
 *   endpoints                  {"do", "status", "endpoints": [[policy, mode], …]}
 *   namespaces                 {"do", "status", "value"}
 *   read|NODE                  {"do", "status", "value"}: the DataValue
 *   write|NODE|TYPE|JSON       TYPE as in `Double`, the value in JSON
 *   browse|NODE                {"do", "status", "nodes": [[name, node], …]}: what is below, 1,000 references at most
 *   call|OBJECT|METHOD[|TYPE|JSON]…   {"do", "status", "outputs": [Variant, …]}
 *   subscribe|NODE|COUNT|MS    {"do", "status", "interval_ms", "queue", "values": [DataValue, …]}: COUNT notifications
 *   time is up after `timeout` for each. A session that could not be opened prints {"do": "connect", "status"} and ends with 1. */

#include "peer.h"

#include <open62541/client.h>
#include <open62541/client_config_default.h>
#include <open62541/client_highlevel.h>
#include <open62541/client_subscriptions.h>

#define TRUST_MAX 16
#define ARGUMENTS_MAX 8
#define WORDS_MAX (3 + 2 * ARGUMENTS_MAX)
#define POLICY "http://opcfoundation.org/UA/SecurityPolicy#"

static long timeout_ms;

static void
json(const void *value, const UA_DataType *type) {
    UA_EncodeJsonOptions options;
    memset(&options, 0, sizeof(options));
    options.useReversible = true;
    options.stringNodeIds = true;
    UA_ByteString text = UA_BYTESTRING_NULL;
    if(UA_encodeJson(value, type, &text, &options) == UA_STATUSCODE_GOOD)
        printf("%.*s", (int)text.length, (const char *)text.data);
    else
        printf("null");
    UA_ByteString_clear(&text);
}

static void
start(const char *what, UA_StatusCode status) {
    printf("{\"do\": \"%s\", \"status\": \"%s\"", what, UA_StatusCode_name(status));
}

static void
end(void) {
    tell("}");
}

static UA_NodeId
node_of(const char *text) {
    UA_NodeId id;
    must(UA_NodeId_parse(&id, UA_STRING((char *)(uintptr_t)text)), text);
    return id;
}

static UA_Variant
variant_of(const char *type_name, const char *text) {
    for(size_t i = 0; i < UA_TYPES_COUNT; i++) {
        const UA_DataType *type = &UA_TYPES[i];
        if(strcmp(type->typeName, type_name) != 0)
            continue;
        UA_Variant value;
        void *data = UA_new(type);
        UA_ByteString json_text = UA_BYTESTRING((char *)(uintptr_t)text);
        must(UA_decodeJson(&json_text, data, type, NULL), text);
        UA_Variant_setScalar(&value, data, type);
        return value;
    }
    fail(type_name);
    exit(2);
}

static void
do_endpoints(UA_Client *client, const char *url) {
    size_t count = 0;
    UA_EndpointDescription *found = NULL;
    start("endpoints", UA_Client_getEndpoints(client, url, &count, &found));
    printf(", \"endpoints\": [");
    for(size_t i = 0; i < count; i++) {
        printf(i ? ", [" : "[");
        json(&found[i].securityPolicyUri, &UA_TYPES[UA_TYPES_STRING]);
        printf(", %d]", (int)found[i].securityMode);
    }
    printf("]");
    end();
    UA_Array_delete(found, count, &UA_TYPES[UA_TYPES_ENDPOINTDESCRIPTION]);
}

static void
do_read(UA_Client *client, const char *what, const char *node) {
    UA_ReadValueId item;
    UA_ReadValueId_init(&item);
    item.nodeId = node_of(node);
    item.attributeId = UA_ATTRIBUTEID_VALUE;
    UA_DataValue value = UA_Client_read(client, &item);
    start(what, value.hasStatus ? value.status : UA_STATUSCODE_GOOD);
    printf(", \"value\": ");
    json(&value, &UA_TYPES[UA_TYPES_DATAVALUE]);
    end();
    UA_DataValue_clear(&value);
    UA_NodeId_clear(&item.nodeId);
}

static void
do_write(UA_Client *client, char **words) {
    UA_NodeId node = node_of(words[1]);
    UA_Variant value = variant_of(words[2], words[3]);
    start("write", UA_Client_writeValueAttribute(client, node, &value));
    end();
    UA_Variant_clear(&value);
    UA_NodeId_clear(&node);
}

static void
do_browse(UA_Client *client, const char *node) {
    UA_BrowseDescription description;
    UA_BrowseDescription_init(&description);
    description.nodeId = node_of(node);
    description.browseDirection = UA_BROWSEDIRECTION_FORWARD;
    description.referenceTypeId = UA_NS0ID(HIERARCHICALREFERENCES);
    description.includeSubtypes = true;
    description.resultMask = UA_BROWSERESULTMASK_ALL;
    UA_BrowseResult result = UA_Client_browse(client, NULL, 1000, &description);
    start("browse", result.statusCode);
    printf(", \"nodes\": [");
    for(size_t i = 0; i < result.referencesSize; i++) {
        printf(i ? ", [" : "[");
        json(&result.references[i].browseName.name, &UA_TYPES[UA_TYPES_STRING]);
        printf(", ");
        json(&result.references[i].nodeId.nodeId, &UA_TYPES[UA_TYPES_NODEID]);
        printf("]");
    }
    printf("]");
    end();
    UA_BrowseResult_clear(&result);
    UA_NodeId_clear(&description.nodeId);
}

static void
do_call(UA_Client *client, char **words, size_t count) {
    UA_NodeId object = node_of(words[1]), method = node_of(words[2]);
    UA_Variant inputs[ARGUMENTS_MAX], *outputs = NULL;
    size_t given = 0, got = 0;
    for(size_t i = 3; i + 1 < count; i += 2)
        inputs[given++] = variant_of(words[i], words[i + 1]);
    start("call", UA_Client_call(client, object, method, given, inputs, &got, &outputs));
    printf(", \"outputs\": [");
    for(size_t i = 0; i < got; i++) {
        printf(i ? ", " : "");
        json(&outputs[i], &UA_TYPES[UA_TYPES_VARIANT]);
    }
    printf("]");
    end();
    UA_Array_delete(outputs, got, &UA_TYPES[UA_TYPES_VARIANT]);
    for(size_t i = 0; i < given; i++)
        UA_Variant_clear(&inputs[i]);
    UA_NodeId_clear(&object);
    UA_NodeId_clear(&method);
}

static long wanted, arrived;

static void
notified(UA_Client *client, UA_UInt32 subscription, void *context, UA_UInt32 item, void *item_context,
         UA_DataValue *value) {
    (void)client, (void)subscription, (void)context, (void)item, (void)item_context;
    if(arrived >= wanted)
        return;
    printf(arrived++ ? ", " : "");
    json(value, &UA_TYPES[UA_TYPES_DATAVALUE]);
}

static void
do_subscribe(UA_Client *client, char **words) {
    UA_CreateSubscriptionRequest request = UA_CreateSubscriptionRequest_default();
    request.requestedPublishingInterval = strtod(words[3], NULL);
    UA_CreateSubscriptionResponse made = UA_Client_Subscriptions_create(client, request, NULL, NULL, NULL);
    start("subscribe", made.responseHeader.serviceResult);
    if(made.responseHeader.serviceResult == UA_STATUSCODE_GOOD) {
        UA_NodeId node = node_of(words[1]);
        UA_MonitoredItemCreateRequest item = UA_MonitoredItemCreateRequest_default(node);
        item.requestedParameters.samplingInterval = request.requestedPublishingInterval;
        item.requestedParameters.queueSize = 1000;
        wanted = strtol(words[2], NULL, 10);
        arrived = 0;
        printf(", \"interval_ms\": %.17g, \"values\": [", made.revisedPublishingInterval);
        UA_MonitoredItemCreateResult result = UA_Client_MonitoredItems_createDataChange(
            client, made.subscriptionId, UA_TIMESTAMPSTORETURN_BOTH, item, NULL, notified, NULL);
        UA_DateTime until = UA_DateTime_nowMonotonic() + timeout_ms * UA_DATETIME_MSEC;
        while(result.statusCode == UA_STATUSCODE_GOOD && arrived < wanted && UA_DateTime_nowMonotonic() < until)
            if(UA_Client_run_iterate(client, 20) != UA_STATUSCODE_GOOD)
                break;
        printf("], \"queue\": %u, \"item\": \"%s\"", result.revisedQueueSize, UA_StatusCode_name(result.statusCode));
        UA_MonitoredItemCreateResult_clear(&result);
        UA_NodeId_clear(&node);
        UA_Client_Subscriptions_deleteSingle(client, made.subscriptionId);
    }
    end();
    UA_CreateSubscriptionResponse_clear(&made);
}

/* Words between bars, which neither NodeIds nor numbers have. */
static size_t
split(char *text, char **words) {
    size_t count = 0;
    words[count++] = text;
    for(char *at = text; *at && count < WORDS_MAX; at++) {
        if(*at == '|') {
            *at = 0;
            words[count++] = at + 1;
        }
    }
    return count;
}

static void
obey(UA_Client *client, const char *url, char *text) {
    char *words[WORDS_MAX];
    size_t count = split(text, words);
    if(strcmp(words[0], "endpoints") == 0)
        do_endpoints(client, url);
    else if(strcmp(words[0], "namespaces") == 0)
        do_read(client, "namespaces", "i=2255");
    else if(strcmp(words[0], "read") == 0 && count == 2)
        do_read(client, "read", words[1]);
    else if(strcmp(words[0], "write") == 0 && count == 4)
        do_write(client, words);
    else if(strcmp(words[0], "browse") == 0 && count == 2)
        do_browse(client, words[1]);
    else if(strcmp(words[0], "call") == 0 && count >= 3 && count % 2 == 1)
        do_call(client, words, count);
    else if(strcmp(words[0], "subscribe") == 0 && count == 4)
        do_subscribe(client, words);
    else
        fail(text);
}

static UA_MessageSecurityMode
mode_of(const char *text) {
    if(strcmp(text, "none") == 0)
        return UA_MESSAGESECURITYMODE_NONE;
    return strcmp(text, "sign") == 0 ? UA_MESSAGESECURITYMODE_SIGN : UA_MESSAGESECURITYMODE_SIGNANDENCRYPT;
}

static UA_Client *
make_client(int argc, char **argv) {
    UA_ByteString trust[TRUST_MAX];
    size_t trusted = whole_list(option(argc, argv, "trust", NULL), trust, TRUST_MAX);
    UA_ByteString certificate = whole(option(argc, argv, "cert", NULL));
    const char *policy = option(argc, argv, "policy", "Basic256Sha256");
    char uri[128];
    snprintf(uri, sizeof(uri), POLICY "%s", policy);
    UA_ClientConfig config;
    memset(&config, 0, sizeof(config));
    config.logging = &peer_logger;
    must(certificate.length ? UA_ClientConfig_setDefaultEncryption(&config, certificate,
                                                                   whole(option(argc, argv, "key", NULL)), trust,
                                                                   trusted, NULL, 0)
                            : UA_ClientConfig_setDefault(&config),
         "configure");
    config.timeout = (UA_UInt32)timeout_ms;
    config.securityMode = mode_of(option(argc, argv, "mode", "sign-encrypt"));
    config.securityPolicyUri = UA_STRING_ALLOC(uri);
    UA_String_clear(&config.clientDescription.applicationUri);
    config.clientDescription.applicationUri = UA_STRING_ALLOC(option(argc, argv, "uri", "urn:peer:client"));
    const char *user = option(argc, argv, "user", NULL);
    if(user) {
        char *name = strdup(user), *password = strchr(name, ':');
        if(!password)
            fail("user=NAME:PASSWORD");
        *password++ = 0;
        must(UA_ClientConfig_setAuthenticationUsername(&config, name, password), "user");
    }
    UA_Client *client = UA_Client_newWithConfig(&config);
    if(!client)
        fail("no client");
    return client;
}

int
main(int argc, char **argv) {
    timeout_ms = number(argc, argv, "timeout", 5000);
    const char *url = option(argc, argv, "url", "opc.tcp://127.0.0.1:4840");
    UA_Client *client = make_client(argc, argv);
    int first; /* of the things to do: name=value comes before them */
    for(first = 1; first < argc; first++) {
        size_t word = strcspn(argv[first], "|=");
        if(argv[first][word] != '=')
            break;
    }
    if(first < argc && strcmp(argv[first], "endpoints") == 0) {
        do_endpoints(client, url);
        first++;
    }
    UA_StatusCode status = first < argc ? UA_Client_connect(client, url) : UA_STATUSCODE_GOOD;
    if(status != UA_STATUSCODE_GOOD) {
        start("connect", status);
        end();
    }
    for(int i = first; i < argc && status == UA_STATUSCODE_GOOD; i++)
        obey(client, url, argv[i]);
    UA_Client_disconnect(client);
    UA_Client_delete(client);
    return status == UA_STATUSCODE_GOOD ? 0 : 1;
}
