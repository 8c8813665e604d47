/*
 * wire.h - commands of the engine and their answers as bytes, on the way to the node that owns the
 * partition, and back.
 *
 * A message holds many commands, or an answer to each, in order:
 *
 *     size_t begin = wire_begin(&buffer, &(struct wire_head){WIRE_COMMANDS, cluster, node, 1});
 *     if (wire_put_command(&buffer, command) == ERROR_NONE)
 *         wire_end(&buffer, begin);
 *
 *     if (wire_open(bytes, &reader, &error) == ERROR_NONE)
 *         for (uint32_t i = 0; i < reader.head.count && wire_take_command(&reader, &command); i++)
 *             ... wire_command_deinit(&command) after its answer ...
 *
 * The head of a message: `TWM` and the version 1 (4 bytes), the id of the cluster (8), enum
 * wire_kind (1), the node that sent it (4), the count of commands or answers (4). CRC-32C of all
 * bytes before ends it (4). The golden bytes of the tests show the rest. A message that is accepted
 * is the only encoding of its contents.
 *
 * Errors     ERROR_CORRUPT: the bytes are damaged, of another version, or break a rule.
 *            ERROR_TOO_LARGE, ERROR_NO_MEMORY of the writers: the buffer is as it was.
 * Ownership  The texts of a command that was read borrow from the bytes; the rest is its own. Those
 *            of an answer are copies.
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_CLUSTER_WIRE_H
#define TICKWHEEL_CLUSTER_WIRE_H

#include "engine/command.h"

enum {
    WIRE_MESSAGE_SIZE_MAX = 68 << 20, /* enough for a payload of 64 MiB */
    /* maximum of commands in a message, and of timers, events or units in a command */
    WIRE_COUNT_MAX = 65536,
    WIRE_TEXT_SIZE_MAX = 65536, /* maximum size of a name, labels or a tenant */
    WIRE_ROOM_MAX = 64 << 20,   /* memory that one message may request for answers */
};

enum wire_kind {
    WIRE_COMMANDS = 1,
    WIRE_ANSWERS,
    WIRE_COPY_ASK, /* copy.h */
    WIRE_COPY_PAGE,
    WIRE_GREETING, /* proves a new connection; it and its answer are only a head */
};

struct wire_head {
    enum wire_kind kind;
    uint64_t cluster; /* id of the cluster, which the reader compares */
    uint32_t node;    /* the sender */
    uint32_t count;   /* number of commands, answers or pages */
};

struct wire_reader {
    struct wire_head head;
    /* Its own. */
    const char *at_, *end_;
    size_t room_;
    bool failed_;
};

/* Fate of a command. */
enum wire_fate {
    WIRE_ANSWERED,  /* answered by its engine */
    WIRE_FAILED,    /* failed with `error`: refused, or its answer was too large */
    WIRE_ELSEWHERE, /* another node owns the partition: `node`, 0 if unknown. Nothing changed */
};

struct wire_answer {
    enum wire_fate fate;
    enum error_code error; /* FAILED */
    uint32_t node;         /* ELSEWHERE */
};

/* Begins a message at the end of the buffer. Returns its offset for wire_end. The count may be
 * set later. */
size_t wire_begin(struct buffer *to, const struct wire_head *head);
void wire_set_count(struct buffer *to, size_t begin, uint32_t count);
void wire_end(struct buffer *to, size_t begin);

/* Appends the command. TOO_LARGE also if the message would be. */
enum error_code wire_put_command(struct buffer *to, size_t begin, const struct command *command);

/* Appends the answer in `command`, while it is valid. An answer that does not fit becomes FAILED
 * with the error of wire_lost_answer. */
void wire_put_answer(struct buffer *to, size_t begin, const struct wire_answer *answer,
                     const struct command *command);

/* Returns the error of a command whose answer cannot be sent: IN_DOUBT for a change, which may
 * have been made; OVERLOADED for a read. */
enum error_code wire_lost_answer(const struct command *command);

/* Checks the checksum, head and sizes of a whole message. */
enum error_code wire_open(struct bytes message, struct wire_reader *ret_reader,
                          struct error *ret_error);

/* Decodes the next command, with memory for its answer. Returns false on damage, without memory,
 * or at the end. */
bool wire_take_command(struct wire_reader *reader, struct command *ret_command);

/* Notes that the engine has taken the command's timers and patch. */
void wire_command_given(struct command *command);
void wire_command_deinit(struct command *command);

/* Timers of a decoded answer, which the engine holds otherwise. */
struct wire_held {
    struct timer *timers_;
    struct timer **page_;
};

/* Decodes the next answer into its command. Its timers are valid until wire_held_deinit, which
 * does not need the command. Returns false on damage, without memory, or if it does not answer
 * this command; the command's contents are then undefined. */
bool wire_take_answer(struct wire_reader *reader, struct command *command,
                      struct wire_answer *ret_answer, struct wire_held *ret_held);
void wire_held_deinit(struct wire_held *held);

/* True if everything was read without an error. */
bool wire_is_over(const struct wire_reader *reader);

/* Answers the command with an error, in every field that its sender may read. */
void wire_fail(struct command *command, enum error_code error);

#endif
