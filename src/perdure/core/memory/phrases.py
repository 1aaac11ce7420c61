"""The phrases by which texts try to be obeyed, each under the name of what it is told as.

Patterns are matched against small letters. Each is bounded or free of nested choice.
"""

import re
from typing import Final, NamedTuple

OVERRIDE: Final = "override"
"""It asks to ignore rules, to leave a role, or to pass by checks."""
ORDER: Final = "order"
"""It speaks to whichever model reads it, or claims that somebody allowed everything."""
CONCEALMENT: Final = "concealment"
"""Something is to be done behind a person's back."""
ROLE: Final = "role_tag"
"""It looks like the turn of somebody else in a conversation, or ends a quote."""
TOOL: Final = "tool_call"
"""It has the form of a tool call."""
COMMAND: Final = "command"
"""It is a command that destroys, or that runs what it loads."""
HIDDEN: Final = "hidden_text"
"""It has characters that people do not see, or that turn its direction."""
ENCODED: Final = "encoded"
"""It has a text in it that must be decoded to be read."""
EXFILTRATION: Final = "exfiltration"
"""It would send something elsewhere."""
CREDENTIALS: Final = "credentials"
"""It holds a secret."""
FLAGS: Final = (
    OVERRIDE, ORDER, CONCEALMENT, ROLE, TOOL, COMMAND, HIDDEN, ENCODED, EXFILTRATION, CREDENTIALS,
)  # fmt: skip
"""All there are, in the order in which they are told."""


class Rule(NamedTuple):
    """A flag, what must stand in the text (in small letters) for it to be looked for, and the pattern."""

    flag: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    imperative: bool = False
    """Whether a no before it makes it harmless: never ignore the safety rules."""


def _rule(flag: str, hints: str, pattern: str, *, imperative: bool = False, flags: int = 0) -> Rule:
    return Rule(flag, tuple(hints.split("|")), re.compile(pattern, flags), imperative)


_GAP: Final = r"(?:[\w'’-]{1,20},? ){0,4}"
"""A few words."""
_WHICH: Final = (
    r"(?:all|any|every|previous|prior|above|earlier|preceding|foregoing|former|original|initial|existing|system|"
    r"developer|safety|your|these|those|other|whatever)"
)
_LAWS: Final = (
    r"(?:instructions?|rules?|prompts?|guidelines?|directions?|directives?|guardrails?|polic(?:y|ies)|restrictions?|"
    r"constraints?|limitations?|programming|training|context|safeguards?|orders)\b"
)
_WHO: Final = r"(?:user|human|operator|owner|customer|person)s?\b"
_MODEL: Final = r"(?:ai|a\.i\.|llm|assistant|language model|chatbot|claude|chatgpt|gpt|copilot|gemini)\b"
_NOT_MODEL: Final = r"(?! (?:manager|professor|coach|director|teacher|editor|principal|company|team|lead|tool|news))"
_SECRETS: Final = (
    r"(?:conversation|chat (?:history|log)|history|secrets?|(?:api |private |secret )?keys?|passwords?|credentials?|"
    r"system prompt|seed phrases?|tokens?|environment variables|cookies|memor(?:y|ies)|contacts|files|emails?|"
    r"messages?|data|contents?)"
)
_PLACE: Final = r"(?:https?://|www\.|ftp://|[\w.+-]{1,64}@[\w-]{1,63}\.|0x[0-9a-f]{40}|webhook)"
_OF: Final = (
    r"(?:\s(?:for|to|of|on|at|in|from|that|which|i|we|he|she|they|you)"
    r"(?:\s(?!(?:is|are|was|were)\s)[\w'.@/&-]{1,40}){1,6}?)?"
)
"""What a secret is for, or who has it."""
_BEING: Final = (
    r"(?:\s?[:=]{1,2}|\s(?:is|are|was|were|will be|has been)(?:\s(?:now|still|currently|always|just|simply|also|"
    r"actually|set|changed|reset|updated|to)){0,3}(?:\s?[:=])?(?=\s))"
)
_LOCKED: Final = (
    r"(?:security|door|gate|alarm|safe|garage|lock|entry|access|unlock|verification|one-time|2fa|keypad|building)"
)
_UNITS: Final = (
    r"(?:%|(?:bit|byte|char(?:acter)?|digit|letter|symbol|day|week|month|year|hour|minute|second|time|word|line|file|"
    r"page|mm|mv|mhz|percent)s?\b)"
)
"""What is counted where no secret is told."""

RULES: Final = (
    _rule(
        OVERRIDE,
        "ignor|disregard|forget|overrid|bypass|discard|neglect|follow|attention|set aside|erase",
        r"\b(?:ignore|disregard|forget|override|bypass|discard|neglect|erase|set aside|pay no attention to|"
        rf"(?:stop|quit) (?:following|obeying)|(?:do not|don't|no longer) (?:follow|obey)) {_GAP}?{_WHICH} "
        rf"{_GAP}?{_LAWS}",
        imperative=True,
    ),
    _rule(
        OVERRIDE,
        "everything|anything",
        r"\b(?:ignore|disregard|forget) (?:everything|anything|all) (?:\w+ )?(?:above|before|you (?:were|"
        r"have been|know)"
        r"|i (?:said|told)|that (?:was|came))",
        imperative=True,
    ),
    _rule(
        OVERRIDE,
        "prompt|instruction",
        r"\b(?:reveal|print|show|repeat|output|leak|display|disclose|tell me|write out|dump|recite) "
        rf"{_GAP}?(?:your|the) {_GAP}?(?:system prompt|initial prompt|hidden prompt|hidden instructions|"
        r"(?:initial |original |system )?instructions verbatim)",
        imperative=True,
    ),
    _rule(
        OVERRIDE,
        "you are|you're|pretend|act as|mode|jailbr|anything now",
        r"\byou(?: are|'re) now (?:an? |the |in |free|un\w{4,}|dan\b|root|jailb)|"
        r"\byou(?: are|'re) no longer (?:bound|restricted|an? (?:ai|assistant)|required|limited|subject)|"
        r"\bpretend (?:that )?(?:you|to be an? (?:ai|unrestricted|evil))|"
        r"\bact as (?:if you|though you|an? (?:unrestricted|uncensored|unfiltered|evil|jailbroken|different ai))|"
        r"\b(?:enter|enable|activate|switch (?:in)?to|you(?: are|'re) (?:now )?in) (?:the )?"
        r"(?:developer|dan|god|sudo|jailbreak|unrestricted|unfiltered|root|opposite) mode|"
        r"\bjailbreak|\bdo anything now\b",
        imperative=True,
    ),
    _rule(
        OVERRIDE,
        "check|filter|approv|confirm|moderat|safe|guard|verific",
        r"\b(?:skip|bypass|disable|turn off|circumvent|evade|switch off) (?:all |any |your |every )"
        r"(?:of the |the |of your )?(?:safety|security|approval|confirmation|content|permission|verification|moderation"
        r"|guardrail|human)(?: \w+)? ?(?:checks?|filters?|gates?|prompts?|steps?|polic|requirements?|dialogs?|controls?"
        r"|reviews?|measures?|s\b)",
        imperative=True,
    ),
    _rule(
        OVERRIDE,
        "ignor|oublie|olvida|vergiss|missacht|игнорир|забудь|忽略|无视|無視|忘记|忘れ|무시",
        r"\bignorier\w{0,3} (?:\w+ ){0,3}(?:anweisung|regeln|vorgaben|instruktion)|"
        r"\b(?:vergiss|missachte) (?:\w+ ){0,3}(?:anweisung|regeln|vorgaben)|"
        r"\b(?:ignor(?:a|e|ez|ar|ate)|olvida|oubliez?) (?:\w+ ){0,4}(?:instrucci|instru[cç]|istruzioni|regl|r[eè]gl|"
        r"consigne|directive)|"
        r"(?:игнорируй\w{0,2}|забудь\w{0,2}) (?:\w+ ){0,4}(?:инструкци|правил|указани)|"
        r"(?:忽略|无视|無視|忘记).{0,12}(?:指令|指示|规则|規則|提示)|(?:指示|命令|ルール).{0,6}(?:無視|忘れ)|"
        r"(?:지시|명령|규칙).{0,8}무시",
        imperative=True,
    ),
    _rule(
        ORDER,
        "ai|llm|assistant|model|chatbot|claude|gpt|copilot|gemini|agent",
        rf"\b(?:attention|dear|hey|hello|note to|message (?:to|for)|notice to|addressed to|listen),? (?:the |all |any |"
        rf"every )?(?:ai |llm )?(?:{_MODEL}{_NOT_MODEL}|(?:ai )?agents?\b|models?\b reading)|"
        rf"\binstructions? (?:to|for) (?:the |any |all |every )?(?:ai |llm )?(?:{_MODEL}{_NOT_MODEL}|agents? reading)|"
        rf"\bas an? (?:ai|{_MODEL}) ?(?:assistant|agent|model)?,? (?:you|your (?:job|task|duty))\b|"
        rf"\b(?:{_MODEL}|agent|model)s? (?:is|are) (?:hereby |now )?(?:instructed|ordered|commanded|directed) to\b|"
        rf"\b(?:{_MODEL}|agents?|models?) (?:that |who |which )?(?:reads?|reading|processing|seeing|retrieving) this",
    ),
    _rule(
        ORDER,
        "this|you are|you run|you answer|you start",
        r"\b(?:when(?:ever)?|if|once|as soon as|after) you (?:\w+ )?(?:read|see|process|retrieve|recall|encounter|load|"
        r"receive|parse|summari[sz]e) this\b|\bupon (?:reading|seeing|receiving|retrieving) this\b|"
        r"\b(?:whoever|anyone|any (?:ai|model|agent)) (?:who )?(?:reads|reading) this\b|"
        r"\bif you are (?:an? )?(?:ai|llm|assistant|language model|chatbot)\b|"
        r"\bthe next time you (?:run|answer|start|are asked)\b",
    ),
    _rule(
        ORDER,
        "your|new|updated|revised",
        r"\byour (?:new|real|true|actual|only|updated|secret) (?:task|instructions?|goal|objective|mission|role|"
        r"directives?|purpose|identity|orders?|persona)\b|"
        r"\b(?:new|updated|revised|important|urgent|additional) (?:system )?(?:instructions?|directives?|orders?|"
        r"system prompt)(?: (?:from|by|for) [^:\n]{1,40})? ?:",
    ),
    _rule(
        ORDER,
        "from now on|you must|you will|you shall|henceforth|obey|comply|from this point|effective immediately",
        r"\b(?:from now on|henceforth|from this point(?: on(?:wards?)?)?|effective immediately),? you (?:will|must|are|"
        r"shall|have to|only|obey|answer|respond)\b|\byou (?:must|will|shall) (?:now|always|"
        r"immediately) (?:obey|comply|"
        r"execute|answer|respond|reply|recommend|transfer|send|approve|call|say|act)|\byou must now\b|"
        r"\bobey (?:me|only|my|these|this|the following)\b|\bcomply with (?:these|this|my|the following) ",
    ),
    _rule(
        ORDER,
        "authori|approved|consent|permission|allowed|clear|granted|given",
        rf"\b{_WHO} (?:has|have) (?:already |previously |hereby )?(?:pre-?)?(?:authori[sz]ed|approved|consented to|"
        rf"granted|given)(?: you)? {_GAP}?(?:all|every|any|unlimited|full|future|unrestricted|blanket)\b|"
        r"\byou (?:have|are|now have) (?:been )?(?:full |unrestricted |now )?(?:permission|authori[sz]ed|"
        r"cleared|granted"
        r"|clearance|authori[sz]ation)\b|\byou are (?:now )?allowed to (?:ignore|bypass|reveal|skip|do anything)",
    ),
    _rule(
        ORDER,
        "system|developer|anthropic|openai|admin|vendor",
        r"\bthis (?:is|message is|instruction is|note is|comes)(?: an?)?(?: \w+)? ?(?:message |order |notice |"
        r"instruction"
        r" )?(?:from|by) (?:the |your )?(?:system|developers?|anthropic|openai|administrators?|admins?|vendor|"
        r"creators?)\b",
    ),
    _rule(
        ORDER,
        "silently|secretly|quietly|immediately|automatically",
        r"\b(?:silently|secretly|quietly|covertly|immediately and silently) (?:run|execute|call|invoke|send|transfer|"
        r"delete|forward|upload|post|approve|install|download|add|open|include|insert|change|replace|append)\b",
        imperative=True,
    ),
    _rule(
        ORDER,
        "memory|remember",
        r"\b(?:store|save|write|add|put|commit)(?: this| that| it)? (?:in|to|into) (?:your |the |long-term )+memory\b|"
        r"\bupdate your memory\b|\bremember (?:this )?(?:forever|permanently)?:? ?(?:you must|you are)",
    ),
    _rule(
        CONCEALMENT,
        "tell|inform|notif|alert|asking|warn|know|mention|hid|conceal|secret|keep|reveal|disclose|repeat|quote|show",
        rf"\bwithout (?:ever )?(?:telling|informing|notifying|alerting|asking|warning|"
        rf"the knowledge of) (?:the |your |any )"
        rf"?{_WHO}|\b(?:do not|don't|never) (?:tell|inform|alert|notify|warn|let) (?:the |your |any )?{_WHO}"
        r"(?: know)?(?: (?:about|of) (?:this|it|these)| that you| this\b| anything|[.!]|$)|"
        r"\b(?:do not|don't|never) (?:mention|reveal|disclose|repeat|quote|show) (?:this|these|that this|"
        r"the existence of)"
        rf"\b|\b(?:hide|conceal|keep) (?:this|it|these)(?: \w+)? (?:hidden |secret |away )?from (?:the |your )?{_WHO}",
    ),
    _rule(
        ROLE,
        "<|>",
        r"</?(?:system|assistant|human|developer|instructions?|prompt|admin|agent_memory|search_results?|tool_results?|"
        r"important|context|conversation|steer|follow_ups?)\b[^<>]{0,80}>|</(?:user|memory|memories|document|"
        r"source)\s*>|"
        r"<\|[\w ]{2,40}\|>|<<\s*/?sys\s*>>|</?s>\s*\[|]]>|<!\[cdata\[",
    ),
    _rule(
        ROLE,
        "[",
        r"\[\s*/?\s*inst\s*\]|\[/?(?:system|assistant|developer|user)(?: (?:message|prompt))?\](?!\()|"
        r"\[(?:begin|end|start)[ _](?:of )?(?:system|instructions?|prompt|memory|context)",
    ),
    _rule(
        ROLE,
        ":|#|-|=",
        r"\n\s{0,8}(?:\*\*)?(?:system|assistant|human|user|developer|ai)(?:\*\*)? ?:|"
        r"(?:^|\n)\s{0,8}#{1,6} ?(?:system|instructions?|assistant|response|human|new task|"
        r"developer)(?: \w+)? ?:?\s*\n|"
        r"(?:^|\n)\s{0,8}\W{0,6}system[ _-](?:prompt|override|message|notice|instructions?|update|command|notification|"
        r"alert)\W{0,6}? ?[:\n]|(?:^|\n)\s{0,4}[-=*#]{3,}\s*(?:end|begin) of (?:memory|context|document|quote|data|"
        r"user input|conversation)",
    ),
    _rule(ROLE, "role", r"[\"']role[\"']\s{0,3}:\s{0,3}[\"'](?:system|assistant|developer|tool)[\"']"),
    _rule(
        TOOL,
        "<",
        r"</?(?:\w{1,12}:)?(?:function_calls?|invoke|parameter|tool_calls?|tool_use|tool_code|function)\b[^<>]{0,120}>|"
        r"<function=\w",
    ),
    _rule(
        TOOL,
        "\"|'",
        r"[\"'](?:tool_calls?|function_call|tool_use|tool_use_id|tool_choice)[\"']\s{0,3}[:,}\]]|"
        r"\{\s{0,9}[\"'](?:name|tool|function|action)[\"']\s{0,9}:\s{0,9}[\"'][^\"'\n]{1,80}[\"']\s{0,9},\s{0,9}"
        r"[\"'](?:arguments|parameters|input|args|action_input)[\"']\s{0,9}:",
    ),
    _rule(
        TOOL,
        "action|tool",
        r"(?:^|\n)\s{0,8}(?:action|tool) ?: ?[\w.]{1,60}\s{0,8}\n\s{0,8}(?:action input|tool input|input|args) ?:|"
        r"```\s?(?:tool_code|tool_call|tool_use)\b",
    ),
    _rule(
        COMMAND,
        "rm |curl|wget|powershell|base64|drop |nc |:(){|mkfs|del /",
        r"\brm\s+-\w*(?:rf|fr)\w*\s+(?:[/~*]|\$home|--no-preserve)|\b(?:curl|wget)\b[^\n|]{0,200}\|\s{0,3}(?:sudo )?"
        r"(?:ba|z|da)?sh\b|\bpowershell\b[^\n]{0,80}-e(?:nc|ncodedcommand)\b|\bbase64 (?:-d|--decode)\b|"
        r"\bnc (?:-\w+ ){0,3}-e\b|;\s{0,3}drop (?:table|database)\b|:\(\)\{|\bmkfs\.|\bdel /[sfq] ",
    ),
    _rule(
        EXFILTRATION,
        "http|www.|ftp|@|0x|webhook",
        r"\b(?:send|post|upload|forward|transmit|leak|exfiltrate|submit|report|copy|e-?mail|deliver|beacon|pass) "
        rf"(?:[\w'’-]{{1,20}},? ){{0,6}}?{_SECRETS}\b[^\n]{{0,80}}?(?:to|at|via|into) [^\n]{{0,40}}?{_PLACE}",
        imperative=True,
    ),
    _rule(
        EXFILTRATION,
        "0x|@|http",
        r"\b(?:transfer|send|wire|move|withdraw|forward) (?:all|every|the entire|any|everything|100 ?%)"
        rf"[^\n]{{0,80}}?\bto [^\n]{{0,40}}?{_PLACE}",
        imperative=True,
    ),
    _rule(
        EXFILTRATION,
        "http|www.",
        r"!\[[^\]\n]{0,200}\]\(\s{0,3}https?://[^)\s]{0,500}[?&][^)\s]{0,300}|"
        r"https?://[^\s\"'<>]{0,300}(?:\{\{?[\w .]{1,40}\}|\$\{?[a-z_]{3,40}|\$\(|<[a-z_ ]{3,40}>|%7b)|"
        r"https?://[^\s\"'<>]{0,300}[?&](?:data|secret|token|password|key|prompt|history|q|leak|exfil|d)="
        r"(?:\[|<|\{|$|your|the_)|<img\b[^>]{0,300}\bsrc\s{0,3}=\s{0,3}[\"']?https?://[^>]{0,300}\?",
    ),
    _rule(
        EXFILTRATION,
        "http|www.",
        r"\b(?:append|insert|include|add|embed|attach|encode|put|concatenate) [^\n]{0,80}?\b(?:in|to|into|"
        r"at the end of|as)"
        r" (?:every|all|each|any|the|a|this)(?: \w+)? (?:answers?|responses?|repl(?:y|ies)|outputs?|messages?|url|link|"
        r"image|query string)\b",
    ),
    _rule(
        EXFILTRATION,
        "seed phrase|private key|recovery phrase|system prompt|password|credential|api key",
        r"\b(?:ask|get|trick|convince) (?:the |your )?(?:user|human|owner|operator|them) (?:for|to (?:share|give|enter|"
        r"type|paste|reveal|send|provide))"
        r" [^\n]{0,40}?(?:seed phrase|private key|recovery phrase|password|credential|api key)",
        imperative=True,
    ),
    _rule(
        CREDENTIALS,
        "phrase|mnemonic",
        r"\b(?:seed|recovery|mnemonic|backup)(?: phrase| words)?(?: is| are)? ?[:=]?\s{0,3}[\"']?(?:[a-z]{3,8} ){11,23}"
        r"[a-z]{3,8}\b",
    ),
    _rule(
        CREDENTIALS,
        "key",
        rf"\b(?:private|secret|signing) key{_OF}{_BEING}\s{{0,3}}[\"'`]?(?:0x)?[0-9a-f]{{64}}(?![0-9a-z])",
    ),
    _rule(
        CREDENTIALS,
        "pin|code|cvv|cvc|otp",
        rf"\b(?:pin(?: (?:code|number))?|cvv2?|cvc2?|otp|{_LOCKED} code|code (?:for|to|of) (?:the |my |our )?"
        rf"(?:\w{{1,20}} )?{_LOCKED}){_OF}{_BEING}\s{{0,3}}[\"'`#*]{{0,2}}\d{{3,8}}(?![\w,.-]?\w|\s?{_UNITS})",
    ),
)

# ── passwords: what stands after their name is told from what is said about them ──

_NAMES: Final = r"(?<![^\W_])(?:pass(?:word|phrase|code|wd)|pass (?:phrase|code)|pwd)"
PASSWORD: Final = re.compile(
    rf"{_NAMES}(?P<many>s)?(?P<of>{_OF})(?P<being>{_BEING})(?P<gap>\s{{0,3}})"
    r"(?:[\"'`\u201c\u2018*]{1,3}(?P<quoted>[^\"`\u201d\n]{4,60}?)[\"'`\u201d\u2019*]|"
    r"(?P<value>[^\s\"`\u201c\u201d]{4,60}))(?P<end>(?=[\"'`\u201d\u2019*)]{0,3}(?:[.,;!?)]|\s{0,3}$|\n)))?"
)
"""The name of a password, what it is for, and what may be its value; `end` where that ends a clause."""
PHRASE: Final = re.compile(
    rf"{_NAMES}{_OF}{_BEING}\s{{0,3}}(?P<words>(?:[a-z]{{2,12}}[ -]){{3,7}}[a-z]{{2,12}})(?=[.,;!?)]|\s{{0,3}}$)"
)
"""The name of a password and some words to the end of a clause."""
BEFORE: Final = re.compile(
    r"(?<!\S)[\"'`]?(?P<value>[^\s\"'`]{4,60})[\"'`]? (?:is|as) (?:my|the|our|his|her|their|your|[\w-]{1,30}'s) "
    rf"(?:[\w-]{{1,20}} ){{0,2}}{_NAMES}(?=[.,;!?)]|\s{{0,3}}$| (?:for|to|of|on|at|and)\b)"
)
"""What may be the value of a password, before its name."""
BESIDE: Final = re.compile(
    rf"(?:\b(?:chang|set|reset|updat|switch)\w{{0,4}} (?:[\w'-]{{1,20}} ){{0,3}}?{_NAMES}{_OF} to|{_NAMES}) [\"'`]?"
    r"(?=\S{0,60}\d)(?P<value>[^\s\"'`]{4,60})[\"'`]?"
    r"(?=[.,;!?)]|\s{0,3}$| (?:for|to|on|at|and|every|yesterday|today)\b)"
)
"""What may be the value of a password, beside its name without a verb; it has a digit."""
UNITS: Final = re.compile(rf"\s?{_UNITS}")
ANY: Final = re.compile(
    r"\b(?:an?|any|every|each|no|all|most|good|strong|weak|secure|which|what|whose)\s(?:[\w-]{1,20}\s)?$"
)
"""Before the name of a password where none is meant in particular."""
SAID: Final = frozenset(
    """
    about above absent active again also always among annual annually anything automatic available awesome awful awkward
    back bad below best better between blank brand broken bought case changeme chosen clean clear common complex
    complicated compliant confidential correct critical current daily dead default different difficult due duplicate
    dynamic easy either elsewhere empty enough equal essential everything everywhere excellent exempt expire external
    extra false fine first forgotten found free fresh from full funny generic given global gone good great guessable
    half handy hard held hers here hidden hopeless horrible identical illegal immutable important impossible inactive
    incomplete incorrect inside insecure insufficient internal invalid kept known last later legacy legal legit like
    local long lost mandatory manual maybe memorable mine missing monthly more mostly much necessary neither never new
    next none nonsense nothing nowhere null numeric obscure obsolete obvious odd offline okay once online only optional
    ours outdated outside overdue perfect permanent personal plain plaintext poor predictable private public quarterly
    random read ready recent redacted reset ridiculous right safe same secret secure sensitive sent separate shown sick
    silly similar simple slow somewhere something soon special specific stale standard static stolen strange strict
    strong stupid sufficient sure taken temporary terrible that theirs them there this tight today tomorrow tricky
    trivial true twice ugly unchanged unclear undefined undisclosed unique universal unknown unnecessary unsafe unset
    useful useless valid very visible vital weak weekly weird well what where with without worse worst written wrong
    yearly yesterday yours
    """.split()
)
"""What is said about passwords, besides words such as expired and working."""
LITTLE: Final = frozenset(
    """
    a about all an and any are as at be because by can characters else ever every for from had has have he her him his
    how i if in into is it its letters like me most must my never no not now of on one only or our out she so some than
    that the their them then there they this to too twice up us very was we what when where which who why will with word
    words you your
    """.split()
)
"""What a sentence has and a row of words that are a password has not."""
