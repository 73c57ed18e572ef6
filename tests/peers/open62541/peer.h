/* What the open62541 peers of the interoperability tests share: arguments `name=value`, a logger on standard error
 * (standard output is the interface to the test), lines from standard input without waiting for them. */

#ifndef PEER_H
#define PEER_H

#include <open62541/plugin/log.h>
#include <open62541/types.h>

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1024
#define KEY_BYTES_MAX 68

static void
fail(const char *what) {
    fprintf(stderr, "peer: %s\n", what);
    exit(2);
}

static void
must(UA_StatusCode status, const char *what) {
    if(status == UA_STATUSCODE_GOOD)
        return;
    fprintf(stderr, "peer: %s: %s\n", what, UA_StatusCode_name(status));
    exit(2);
}

/* The value of `name=value` among the arguments, or what is usual. */
static const char *
option(int argc, char **argv, const char *name, const char *usual) {
    size_t length = strlen(name);
    for(int i = 1; i < argc; i++)
        if(strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return usual;
}

static long
number(int argc, char **argv, const char *name, long usual) {
    const char *text = option(argc, argv, name, NULL);
    return text ? strtol(text, NULL, 0) : usual;
}

static void
to_stderr(void *context, UA_LogLevel level, UA_LogCategory category, const char *text, va_list arguments) {
    (void)context;
    (void)category;
    if(level < UA_LOGLEVEL_WARNING)
        return;
    UA_String line = UA_STRING_NULL; /* the library's own formats are more than those of printf */
    if(UA_String_vformat(&line, text, arguments) == UA_STATUSCODE_GOOD)
        fprintf(stderr, "%.*s\n", (int)line.length, (const char *)line.data);
    UA_String_clear(&line);
}

static UA_Logger peer_logger = {to_stderr, NULL, NULL};

/* Hexadecimal text to at most `room` bytes; how many. */
static inline size_t
unhex(const char *text, UA_Byte *out, size_t room) {
    size_t size = 0;
    unsigned byte;
    for(; sscanf(text, "%2x", &byte) == 1 && size < room; text += 2)
        out[size++] = (UA_Byte)byte;
    return size;
}

/* A whole file; empty where none is named. The caller keeps it for as long as the program runs. */
static inline UA_ByteString
whole(const char *path) {
    UA_ByteString data = UA_BYTESTRING_NULL;
    if(!path)
        return data;
    FILE *file = fopen(path, "rb");
    if(!file)
        fail(path);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    must(UA_ByteString_allocBuffer(&data, (size_t)size), path);
    if(fread(data.data, 1, data.length, file) != data.length)
        fail(path);
    fclose(file);
    return data;
}

/* Files named in one argument, separated by commas. */
static inline size_t
whole_list(const char *paths, UA_ByteString *out, size_t room) {
    size_t count = 0;
    char *copy = strdup(paths ? paths : "");
    for(char *path = strtok(copy, ","); path && count < room; path = strtok(NULL, ","))
        out[count++] = whole(path);
    free(copy);
    return count;
}

/* The next line of standard input, waiting `wait_ms` at most: 1 a line, 0 none yet, -1 the end. */
static inline int
next_line(char line[LINE_BYTES], int wait_ms) {
    static char kept[LINE_BYTES];
    static size_t size = 0;
    for(;;) {
        char *end = memchr(kept, '\n', size);
        if(end) {
            size_t length = (size_t)(end - kept);
            memcpy(line, kept, length);
            line[length] = 0;
            size -= length + 1;
            memmove(kept, end + 1, size);
            return 1;
        }
        struct pollfd input = {STDIN_FILENO, POLLIN, 0};
        if(size == sizeof(kept))
            fail("a line that is too long");
        if(poll(&input, 1, wait_ms) <= 0)
            return 0;
        ssize_t got = read(STDIN_FILENO, kept + size, sizeof(kept) - size);
        if(got <= 0)
            return -1;
        size += (size_t)got;
    }
}

static inline void
tell(const char *text) {
    puts(text);
    fflush(stdout);
}

#endif
