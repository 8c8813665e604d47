#include "timer/queue_target.h"

bool queue_name_is_valid(struct bytes name)
{
    if (name.size == 0 || name.size > QUEUE_NAME_SIZE_MAX)
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

bool queue_target_parse(struct bytes target, struct queue_target *ret_target)
{
    static const struct bytes scheme = {"queue:", 6}, query = {"?priority=", 10};
    struct queue_target parsed = {.priority = QUEUE_PRIORITY_DEFAULT};
    const char *mark;

    if (!bytes_has_prefix(target, scheme))
        return false;
    parsed.name = (struct bytes){target.data + scheme.size, target.size - scheme.size};
    mark = parsed.name.size ? memchr(parsed.name.data, '?', parsed.name.size) : NULL;
    if (mark) {
        struct bytes rest = {mark, (size_t)(parsed.name.data + parsed.name.size - mark)};
        char digit = rest.data[rest.size - 1];

        if (rest.size != query.size + 1 || !bytes_has_prefix(rest, query) || digit < '0' ||
            digit > '9')
            return false;
        parsed.priority = (unsigned)(digit - '0');
        parsed.name.size -= rest.size;
    }
    if (!queue_name_is_valid(parsed.name))
        return false;
    *ret_target = parsed;
    return true;
}
