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
 * A message that is accepted is the only encoding of its contents. docs/cluster-design.md has the
 * head; the golden bytes of the tests show the rest.
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
    WIRE_MESSAGE_SIZE_MAX = 68 << 20, /* a timer may have a payload of 64 MiB */
    WIRE_COUNT_MAX = 65536,           /* commands of a message; timers, events, units of one */
    WIRE_TEXT_SIZE_MAX = 65536,       /* of a name, of labels, of a tenant */
    WIRE_ROOM_MAX = 64 << 20,         /* memory for answers that one message may ask for */
};

enum wire_kind {
    WIRE_COMMANDS = 1,
    WIRE_ANSWERS,
    WIRE_COPY_ASK, /* copy.h */
    WIRE_COPY_PAGE,
    WIRE_GREETING, /* proves a new connection: a head alone, and so is its answer */
};

struct wire_head {
    enum wire_kind kind;
    uint64_t cluster; /* its id: the reader compares it */
    uint32_t node;    /* the sender */
    uint32_t count;   /* of commands, answers or pages */
};

struct wire_reader {
    struct wire_head head;
    /* Its own. */
    const char *at_, *end_;
    size_t room_;
    bool failed_;
};

/* What became of a command. */
enum wire_fate {
    WIRE_ANSWERED,  /* by its engine */
    WIRE_FAILED,    /* `error` says why: it was refused, or its answer was too large */
    WIRE_ELSEWHERE, /* another node owns the partition: `node`, 0 when unknown. Nothing changed */
};

struct wire_answer {
    enum wire_fate fate;
    enum error_code error; /* FAILED */
    uint32_t node;         /* ELSEWHERE */
};

/* Begins a message at the end of the buffer; answers where, for wire_end. The count may be put
 * right later. */
size_t wire_begin(struct buffer *to, const struct wire_head *head);
void wire_set_count(struct buffer *to, size_t begin, uint32_t count);
void wire_end(struct buffer *to, size_t begin);

/* Appends what the engine is asked. TOO_LARGE too when the message would be. */
enum error_code wire_put_command(struct buffer *to, size_t begin, const struct command *command);

/* Appends the answer in `command`, while it is valid. An answer that does not fit into the message
 * becomes FAILED, with the error of wire_lost_answer. */
void wire_put_answer(struct buffer *to, size_t begin, const struct wire_answer *answer,
                     const struct command *command);

/* What is said of a command that has an answer which cannot be sent: IN_DOUBT, because a change was
 * made or not; OVERLOADED of a read. */
enum error_code wire_lost_answer(const struct command *command);

/* Checks the checksum, the head and the sizes of a whole message. */
enum error_code wire_open(struct bytes message, struct wire_reader *ret_reader,
                          struct error *ret_error);

/* The next command, with room for its answer. False: damage, no memory, or no more of them. */
bool wire_take_command(struct wire_reader *reader, struct command *ret_command);

/* The engine has taken its timers and its patch. */
void wire_command_given(struct command *command);
void wire_command_deinit(struct command *command);

/* The timers of an answer that was read, as the engine holds them otherwise. */
struct wire_held {
    struct timer *timers_;
    struct timer **page_;
};

/* The next answer, put into the command that was asked: its timers are valid until
 * wire_held_deinit, of which the command need not live any more. False: damage, no memory, or no
 * answer to this command; what stands in the command then means nothing. */
bool wire_take_answer(struct wire_reader *reader, struct command *command,
                      struct wire_answer *ret_answer, struct wire_held *ret_held);
void wire_held_deinit(struct wire_held *held);

/* Whether all was read, and nothing was wrong. */
bool wire_is_over(const struct wire_reader *reader);

/* Answers the command with an error, in every place where its sender may look. */
void wire_fail(struct command *command, enum error_code error);

#endif
