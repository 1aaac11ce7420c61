"""Whether a text speaks of somebody by name: a name, and what is said of people alone.

Names by themselves tell nobody from a place or a product; who a memory is about, its `subjects` say.
"""

import re
from typing import Final

_NAME: Final = (
    r"\b(?!(?:This|That|These|It|There|No|Any|Every|Each|Some|Who|What|The|A|An|\w+body|\w+one)\b)[A-Z][\w-]+"
)
_OF_PEOPLE: Final = """
allergy allergies diet health illness diagnosis doctor therapist salary pay birthday age wife husband spouse partner
girlfriend boyfriend mother father mum mom dad parents son daughter sister brother child children kids family friend
neighbour neighbor boss pregnancy religion hobby hobbies phone email home job shoe
"""
_DONE_BY_PEOPLE: Final = """
lives lived works worked moved likes loves hates prefers dislikes enjoys wants earns studies studied speaks married died
quit resigned retired suffers drinks smokes eats wears thinks believes feels said told asked commutes drives owes plays
practises practices cheated stole snores
"""
_SAID_OF_PEOPLE: Final = """
allergic married single divorced engaged widowed pregnant ill sick fired hired born diagnosed vegetarian vegan gay
lesbian bisexual trans muslim christian jewish hindu buddhist atheist depressed disabled unemployed retired tired
"""
_HAD_BY_PEOPLE: Final = """
diabetes asthma cancer adhd autism arthritis migraines migraine depression anxiety hiv epilepsy dementia allergies son
daughter wife husband child children kids brother sister girlfriend boyfriend dog cat cold fever flu
"""


def _any_of(words: str) -> str:
    return rf"(?:{'|'.join(words.split())})\b"


SAID_OF_SOMEBODY: Final = re.compile(
    rf"\b(?:Dr|Mr|Mrs|Ms|Prof)\.? [A-Z]|{_NAME}(?:['’]s?(?: \w+)? {_any_of(_OF_PEOPLE)}|"
    rf" (?:now |still |also |always |never |usually )?{_any_of(_DONE_BY_PEOPLE)}|"
    rf" (?:is|was) (?:not |now |an? )?{_any_of(_SAID_OF_PEOPLE)}|"
    rf" (?:has|had) (?:an? |no |two |three |type \d )?{_any_of(_HAD_BY_PEOPLE)})"
)
