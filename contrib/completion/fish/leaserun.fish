# Completion of leaserun(1) for fish: commands and options as --help prints
# them, names from the configuration and from the store.

# Option, placeholder or `-', text, with tabs in between; also for the letter.
function __leaserun_options
    $argv[1] $argv[2] --help 2>/dev/null </dev/null | sed -nE '
        s/^  (-.), (--[a-z-]+)( ([A-Z][A-Z=]*))? +/\1 \2 \4\t/
        s/^      (--[a-z-]+)( ([A-Z][A-Z=]*))? +/\1 \3\t/
        /^-/!d
        s/ \t/ -\t/
        s/^(-.) (--[a-z-]+) ([^\t]*)\t(.*)/\1\t\3\t\4\n\2\t\3\t\4/
        s/^(--[a-z-]+) ([^\t]*)\t/\1\t\2\t/
        p'
end

# Those of the job blocks, patterns left out, and those that the store knows;
# one that does not answer is not waited for.
function __leaserun_names -a leaserun config
    set -l base ~/.config
    set -q XDG_CONFIG_HOME; and set base $XDG_CONFIG_HOME
    set -l files /etc/leaserun.conf $base/leaserun.conf
    test -z "$LEASERUN_CONFIG"; or set files $LEASERUN_CONFIG
    test -z "$config"; or set files $config
    for file in $files
        test -r $file; and sed -nE '
            s/^[ \t]*job[ \t]+"([^"*?[\\\\]+)".*/\1/p
            s/^[ \t]*job[ \t]+\'([^\'*?[\\\\]+)\'.*/\1/p
            s/^[ \t]*job[ \t]+([^"\'*?[\\\\ \t{]+)[ \t{].*/\1/p' $file
    end
    timeout 2 $leaserun status $argv[3..] --connect-timeout 1s --json \
        2>/dev/null </dev/null |
        sed -nE 's/^ *"name": "(.*)",$/\1/; T; s/\\\\(["\\\\\/])/\1/g; p'
end

# PLACEHOLDER TEXT WORD: what may follow the option.
function __leaserun_values -a arg text word
    switch $arg
        case URL
            printf '%s\n' file: postgres:// etcd:// etcds://
        case FILE
            __fish_complete_path $word
        case DIR
            __fish_complete_directories $word ''
        case HOW TARGET
            string split ' ' -- (string replace -r '.*: | \\(.*' '' -- $text |
                string replace -ra ' \\(.*|,' '' | string replace ' or ' ' ')
        case '*'
            string match -qr 'or inf|\\(inf\\)' -- $text; and echo inf
    end
end

function __leaserun
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l leaserun $words[1]
    if test (count $words) -eq 1
        $leaserun --help 2>/dev/null </dev/null | sed -nE '
            /^  leaserun [a-z]+ /{s/^  leaserun ([a-z]+) .*/\1/;N
                s/\n */\t/p;}'
        printf '%s\n' --help --version
        return
    end
    set -l command $words[2]
    set -l options (__leaserun_options $leaserun $command)
    set -l wants
    set -l store
    set -l config
    set -l i 3
    while test $i -le (count $words)
        set -l this $words[$i]
        set -l value
        if set -q wants[1]
            set value $this
        else if string match -q -- '--*=*' $this
            set -l parts (string split -m 1 = -- $this)
            set wants $parts[1]
            set value $parts[2]
        else if test "$this" = --
            set i (math $i + 1)
            break
        else if string match -q -- '-?*' $this
            set -l found (string match -- $this\t'*' $options)
            test -z "$found"; or string match -q -- \*\t-\t\* $found
            or set wants $this
            set i (math $i + 1)
            continue
        else
            break
        end
        switch $wants
            case -b --backend -o --option --config --module-dir
                set -a store $wants $value
        end
        test $wants != --config; or set config $value
        set -e wants
        set i (math $i + 1)
    end
    set -l operands (math (count $words) + 1 - $i)
    set -l prefix
    if not set -q wants[1]; and test $operands -le 0
        and string match -q -- '--*=*' $word
        set wants (string split -m 1 = -- $word)[1]
        set prefix $wants=
        set word (string split -m 1 = -- $word)[2]
    end
    if set -q wants[1]
        set -l found (string split \t -- (string match -- $wants\t'*' $options))
        __leaserun_values "$found[2]" "$found[3]" "$word" |
            string replace -r '^' -- "$prefix"
    else if test $operands -le 0; and string match -q -- '-*' $word
        string replace -r '\t[^\t]*\t' \t -- $options
    else if contains $command run check revoke; and test $operands -le 0
        or test $command = status
        __leaserun_names $leaserun "$config" $store
    else if test $command = fence -a $operands -le 0
        __fish_complete_path $word
    else if contains $command run fence
        # The rest is a command of its own.
        set i (math $i + 1)
        test "$words[$i]" != --; or set i (math $i + 1)
        if test $i -gt (count $words)
            complete -C "$word"
        else
            complete -C (string join ' ' -- \
                (string escape -- $words[$i..]) $word)
        end
    end
end

complete -c leaserun -f -a '(__leaserun)'
