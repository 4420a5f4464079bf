function __cloister_words
    set -l words (commandline -opc) (commandline -ct)
    for line in (cloister completion words -- $words[2..-1] 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :programs
                __fish_complete_command
            case '*'
                echo $line
        end
    end
end
complete -c cloister -f -a '(__cloister_words)'
