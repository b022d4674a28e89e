#!/bin/sh
# Fails with one sentence and its remedy if Spark would find no Java 17 or newer.
# Looks where Spark looks: JAVA_HOME first, then PATH. Uses shell builtins only.

needed=17
remedy="install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew \
install openjdk@17) and, if there are several, let JAVA_HOME name its folder"

fail() {
    printf 'bundle-controller: %s; %s.\n' "$1" "$remedy" >&2
    exit 1
}

if [ -n "${JAVA_HOME:-}" ]; then
    java="$JAVA_HOME/bin/java"
    [ -x "$java" ] || fail "Spark needs Java $needed or newer, but JAVA_HOME=$JAVA_HOME holds no Java"
else
    java=$(command -v java) || fail "Spark needs Java $needed or newer, but no java is on the PATH"
fi

# macOS has a /usr/bin/java that only says that there is no Java.
answer=$("$java" -version 2>&1) || fail "Spark needs Java $needed or newer, but $java does not run"

case $answer in
*version\ \"*) ;;
*) fail "Spark needs Java $needed or newer, but $java does not tell its version" ;;
esac
version=${answer#*version \"}
version=${version%%\"*}
major=${version%%[!0-9]*}
if [ "$major" = 1 ]; then # up to Java 8 the versions were 1.x
    major=${version#1.}
    major=${major%%[!0-9]*}
fi
[ "${major:-0}" -ge "$needed" ] ||
    fail "Spark needs Java $needed or newer, but $java is version $version"
