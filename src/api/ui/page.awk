# Makes an HTML page of a document in Markdown, of which it knows what docs/runbooks.md has: heads, paragraphs, lists,
# tables, commands, code, bold and links. A link to another document becomes its text, because the daemon serves none.
#
#   awk -f page.awk docs/runbooks.md > runbooks.html

function linked(text,    made, label, to) {
    made = ""
    while (match(text, /\[[^]]*\]\([^)]*\)/)) {
        label = substr(text, RSTART + 1, RLENGTH - 2)
        to = substr(label, index(label, "](") + 2)
        label = substr(label, 1, index(label, "](") - 1)
        made = made substr(text, 1, RSTART - 1) (to ~ /^#/ ? "<a href=\"" to "\">" label "</a>" : label)
        text = substr(text, RSTART + RLENGTH)
    }
    return made text
}

function escaped(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    return text
}

function inline(text,    parts, count, i, made) {
    count = split(linked(escaped(text)), parts, "`")
    made = ""
    for (i = 1; i <= count; i++) {
        if (i % 2 == 0)
            parts[i] = "<code>" parts[i] "</code>"
        else
            while (match(parts[i], /\*\*[^*]+\*\*/))
                parts[i] = substr(parts[i], 1, RSTART - 1) "<b>" substr(parts[i], RSTART + 2, RLENGTH - 4) "</b>" \
                    substr(parts[i], RSTART + RLENGTH)
        made = made parts[i]
    }
    return made
}

# Writes the paragraph or item whose lines were gathered.
function finish() {
    if (text != "")
        print "<" tag ">" inline(text) "</" tag ">"
    text = ""
}

# Ends the list, table or commands that are open, unless they are of this kind.
function within(kind) {
    finish()
    if (open == kind)
        return 0
    if (open == "ul" || open == "ol" || open == "pre")
        print "</" open ">"
    if (open == "table")
        print "</tbody></table></div>"
    open = kind
    return kind != ""
}

function row(line, cell,    cells, count, i) {
    gsub(/^\| ?| ?\|$/, "", line)
    count = split(line, cells, / ?\| ?/)
    printf "<tr>"
    for (i = 1; i <= count; i++)
        printf "<%s>%s</%s>", cell, inline(cells[i]), cell
    print "</tr>"
}

function gather(line) {
    text = text == "" ? line : text " " line
}

/^# / {
    title = substr($0, 3)
    print "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">"
    print "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
    print "<meta name=\"color-scheme\" content=\"light dark\">"
    print "<title>" title "</title>\n<link rel=\"stylesheet\" href=\"style.css\">"
    print "<link rel=\"icon\" href=\"icon.svg\" type=\"image/svg+xml\">\n</head>\n<body>"
    print "<main>\n<p><a href=\"../ui\">Dashboard</a></p>\n<h1>" title "</h1>"
    next
}
/^## / {
    within("")
    name = substr($0, 4)
    anchor = tolower(name)
    gsub(/[^a-z0-9]+/, "-", anchor)
    print "<h2 id=\"" anchor "\">" name "</h2>"
    next
}
/^    / && open != "ul" && open != "ol" {
    if (within("pre"))
        printf "<pre tabindex=\"0\">"
    print escaped(substr($0, 5))
    next
}
/^\|[-|]+$/ { next }
/^\|/ {
    if (within("table")) {
        print "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" name "\"><table><thead>"
        row($0, "th")
        print "</thead><tbody>"
    } else {
        row($0, "td")
    }
    next
}
/^(- |[0-9]+\. )/ {
    kind = /^- / ? "ul" : "ol"
    if (within(kind))
        print "<" kind (kind == "ol" && $1 != "1." ? " start=\"" $1 + 0 "\"" : "") ">"
    tag = "li"
    sub(/^(-|[0-9]+\.) /, "")
    gather($0)
    next
}
/^$/ {
    finish()
    next
}
/^ / && text != "" {
    sub(/^ +/, "")
    gather($0)
    next
}
{
    if (text == "") {
        within("")
        tag = "p"
    }
    gather($0)
}
END {
    within("")
    print "</main>\n</body>\n</html>"
}
