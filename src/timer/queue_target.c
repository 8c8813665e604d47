/* queue_target.c - the names of queues, and the syntax of "queue:NAME?priority=N" and of other
 * targets that are a scheme and a name. */
#include "timer/queue_target.h"

#include "timer/target_parsers.h"

bool queue_name_is_valid(struct bytes name)
{
    if (name.size == 0 || name.size > QUEUE_NAME_SIZE_MAX)
        return false;
    /* a path of a URL cannot have them as segments */
    if (bytes_equal(name, BYTES(".")) || bytes_equal(name, BYTES("..")))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i], letter = (char)(c | 0x20);

        if (!(c >= '0' && c <= '9') && !(letter >= 'a' && letter <= 'z') && c != '.' && c != '_' &&
            c != '-')
            return false;
    }
    return true;
}

struct bytes queue_full_name(struct bytes tenant, struct bytes name,
                             char room[QUEUE_FULL_NAME_SIZE_MAX])
{
    if (!tenant.size)
        return name;
    memcpy(room, tenant.data, tenant.size);
    room[tenant.size] = '/';
    memcpy(room + tenant.size + 1, name.data, name.size);
    return (struct bytes){room, tenant.size + 1 + name.size};
}

struct bytes queue_tenant(struct bytes full)
{
    const char *slash = full.size ? memchr(full.data, '/', full.size) : NULL;

    return slash ? (struct bytes){full.data, (size_t)(slash - full.data)} : (struct bytes){0};
}

/* Removes "?priority=N" from the name. Returns false if something else follows a '?'. */
static bool queue_cut_priority(struct bytes *name, uint8_t *ret_priority)
{
    const struct bytes query = BYTES("?priority=");
    const char *mark = name->size ? memchr(name->data, '?', name->size) : NULL;

    if (!mark)
        return true;
    const struct bytes rest = {mark, (size_t)(name->data + name->size - mark)};
    const char digit = rest.data[rest.size - 1];
    if (rest.size != query.size + 1 || !bytes_has_prefix(rest, query) || digit < '0' || digit > '9')
        return false;
    *ret_priority = (uint8_t)(digit - '0');
    name->size -= rest.size;
    return true;
}

struct bytes queue_own_name(struct bytes tenant, struct bytes full)
{
    if (!tenant.size)
        return memchr(full.data, '/', full.size) ? (struct bytes){0} : full;
    if (full.size <= tenant.size || !bytes_has_prefix(full, tenant) ||
        full.data[tenant.size] != '/')
        return (struct bytes){0};
    return (struct bytes){full.data + tenant.size + 1, full.size - tenant.size - 1};
}

enum error_code target_parser_name(struct bytes text, size_t at, struct target *target,
                                   struct error *ret_error)
{
    const struct bytes name = {text.data + at, text.size - at};

    if (name.size > 0 && !queue_name_is_valid(name))
        return error_set(ret_error, ERROR_INVALID,
                         "its name is 1 to %d letters, digits and . _ -, or is left out",
                         QUEUE_NAME_SIZE_MAX);
    target->name = target_slice_of(text, name.data, name.data + name.size);
    return ERROR_NONE;
}

enum error_code target_parser_queue(struct bytes text, size_t at, struct target *target,
                                    struct error *ret_error)
{
    struct bytes name = {text.data + at, text.size - at};

    target->priority = QUEUE_PRIORITY_DEFAULT;
    if (!queue_cut_priority(&name, &target->priority) || !queue_name_is_valid(name))
        return error_set(ret_error, ERROR_INVALID,
                         "a queue is queue:NAME or queue:NAME?priority=N: a name of 1 to %d "
                         "letters, digits and . _ -, and a priority of 0 to %d",
                         QUEUE_NAME_SIZE_MAX, QUEUE_PRIORITY_COUNT - 1);
    target->name = target_slice_of(text, name.data, name.data + name.size);
    return ERROR_NONE;
}
