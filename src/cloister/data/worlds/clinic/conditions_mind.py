"""Lexicon of the clinic world: mind and nerves."""

from __future__ import annotations

from typing import Final

from cloister.data.worlds.clinic.condition import Condition, condition

__all__ = ["MIND_AND_NERVES"]

MIND_AND_NERVES: Final[tuple[Condition, ...]] = (
    condition(
        "depression", 3, "psychiatry", ages=(15, 80), heritable=True,
        names="major depressive disorder; depressive episode; recurrent depression; low mood",
        lay="feeling down; the blues",
        symptoms="loss of interest; early waking; tearfulness; poor concentration; hopelessness; "
        "lack of energy",
        signs="flat affect; slow speech; good eye contact; no psychotic features",
        drugs="sertraline 50 mg once daily; citalopram 20 mg once daily; mirtazapine 15 mg at "
        "night;"
        " fluoxetine 20 mg once daily",
        tests="PHQ-9 score 8-23 points",
        procedures="talking therapy referral; cognitive behavioural therapy; risk assessment",
        advice="plan one pleasant thing each day; keep regular hours; call the crisis line if "
        "thoughts darken",
        related="anxiety disorder; insomnia; alcohol dependence; fibromyalgia",
        excludes="bipolar disorder; schizophrenia",
    ),
    condition(
        "anxiety disorder", 8, "psychiatry", ages=(14, 70), heritable=True,
        names="generalised anxiety disorder; GAD; panic disorder",
        lay="bad nerves; panic attacks",
        symptoms="constant worry; racing thoughts; sudden panic in crowds; tense shoulders; "
        "trembling; butterflies in the stomach",
        signs="restlessness in the chair; sweaty palms; rapid speech",
        drugs="propranolol 40 mg three times daily|beta_blocker; buspirone 10 mg twice daily; "
        "hydroxyzine 25 mg at night; venlafaxine 75 mg once daily",
        tests="GAD-7 score 7-20 points",
        procedures="guided self-help; cognitive behavioural therapy; relaxation group",
        advice="practise slow breathing twice a day; cut down on coffee; face feared places step "
        "by step",
        related="depression; insomnia; irritable bowel syndrome; hyperthyroidism",
    ),
    condition(
        "insomnia", 25, "psychiatry", ages=(20, 88),
        names="chronic insomnia; sleep disorder; sleep-onset insomnia",
        lay="sleeplessness; trouble sleeping",
        symptoms="lying awake for hours; waking at three in the morning; tiredness all day; "
        "irritability; worrying about sleep",
        signs="tired appearance; no tremor; normal thyroid on palpation",
        drugs="melatonin 2 mg before bed; zopiclone 3.75 mg at night for two weeks; trazodone 50 "
        "mg "
        "at night",
        tests="insomnia severity index 11-25 points",
        procedures="sleep diary review; digital sleep therapy; sleep clinic referral",
        advice="get up at the same hour every day; keep screens out of the bedroom; no coffee "
        "after "
        "noon",
        related="depression; anxiety disorder; sleep apnoea; menopause",
    ),
    condition(
        "bipolar disorder", 73, "psychiatry", ages=(18, 50), heritable=True,
        names="bipolar affective disorder; manic-depressive illness; bipolar type II",
        lay="manic depression; extreme mood swings",
        symptoms="little need for sleep; spending sprees; pressure of speech; weeks of low mood; "
        "racing ideas",
        signs="even mood; talkative, polite manner; preserved insight",
        drugs="lithium carbonate 800 mg at night|teratogen; quetiapine 300 mg at night; "
        "lamotrigine "
        "100 mg twice daily",
        tests="mood score 4-19 points; creatinine 68-104 umol/l",
        procedures="psychiatric review; blood monitoring; care plan meeting",
        advice="keep a mood chart; drink steadily in hot weather; do not stop tablets suddenly",
        related="depression; alcohol dependence; schizophrenia",
        excludes="depression; schizophrenia", avoid="nsaid",
    ),
    condition(
        "schizophrenia", 85, "psychiatry", ages=(18, 45), heritable=True,
        names="paranoid schizophrenia; psychotic disorder; schizoaffective disorder",
        lay="hearing voices; split from reality",
        symptoms="hearing voices; suspicion of neighbours; withdrawal from friends; muddled "
        "thinking; neglect of the home",
        signs="guarded manner; no thought disorder today; mild akathisia",
        drugs="olanzapine 10 mg at night; aripiprazole 15 mg once daily; paliperidone depot every "
        "month",
        tests="prolactin 310-1450 mU/l; fasting glucose 4.8-6.8 mmol/l",
        procedures="community mental health visit; depot clinic; annual physical check",
        advice="keep every appointment; avoid cannabis; let the key worker know of poor sleep",
        related="bipolar disorder; depression; alcohol dependence",
        excludes="depression; bipolar disorder; dementia",
    ),
    condition(
        "ADHD", 63, "psychiatry", ages=(6, 25), until=60, heritable=True,
        names="attention deficit hyperactivity disorder; attention deficit disorder; hyperkinetic "
        "disorder",
        lay="attention problems; hyperactivity",
        symptoms="fidgeting; losing things; trouble finishing tasks; acting without thinking; "
        "daydreaming in class",
        signs="restless, cooperative behaviour; normal heart sounds; frequent interrupting",
        drugs="methylphenidate each morning; atomoxetine once daily; lisdexamfetamine each morning",
        tests="Conners score 61-84 points; pulse 72-104 per minute",
        procedures="school report review; cognitive testing; parent training course",
        advice="use a planner; keep a fixed evening routine; break homework into short blocks",
        related="anxiety disorder; insomnia; depression",
    ),
    condition(
        "alcohol dependence", 44, "psychiatry", ages=(22, 70), heritable=True,
        names="alcohol use disorder; harmful drinking; alcohol misuse",
        lay="drinking problem; drinking too much",
        symptoms="morning shakes; drinking before noon; blackouts; sweating without a drink; "
        "hiding bottles",
        signs="spider naevi on the chest; fine tremor; liver edge palpable",
        drugs="acamprosate 666 mg three times daily; naltrexone 50 mg once daily; thiamine 100 mg "
        "twice daily",
        tests="gamma-GT 88-620 U/l; AUDIT score 14-34 points; mean cell volume 97-112 fl",
        procedures="supervised detoxification; liver elastography; alcohol counselling",
        advice="do not stop drinking suddenly; go to the support group; keep alcohol out of the "
        "house",
        related="depression; anxiety disorder; bipolar disorder; insomnia", avoid="opioid",
    ),
    condition(
        "migraine", 15, "neurology", ages=(12, 50), heritable=True,
        names="migraine with aura; migraine without aura; hemicrania; chronic migraine",
        lay="sick headaches; one-sided headaches",
        symptoms="throbbing one-sided headache; flashing zigzag lines; nausea with headache; "
        "dislike "
        "of bright light; smell sensitivity",
        signs="normal fundi; no neck stiffness; no focal neurological deficit",
        drugs="sumatriptan 50 mg at onset|triptan; topiramate 50 mg twice daily|teratogen; "
        "amitriptyline 10 mg at night; rizatriptan 10 mg at onset|triptan",
        tests="headache days 4-17 a month",
        procedures="headache diary review; MRI of the brain; botulinum toxin injections",
        advice="treat at the first sign; keep regular meals; rest in a dark room; no "
        "painkillers on more than ten days a month",
        related="depression; insomnia; concussion; stroke",
    ),
    condition(
        "epilepsy", 52, "neurology", ages=(3, 80), heritable=True,
        names="focal epilepsy; seizure disorder; generalised epilepsy; tonic-clonic seizures",
        lay="fits; falling sickness",
        symptoms="blank spells; jerking of one arm; tongue biting; strange smell before attacks; "
        "confusion after a fit",
        signs="healed bite mark on the tongue; normal gait; no nystagmus",
        drugs="levetiracetam twice daily; lamotrigine twice daily; carbamazepine twice daily|"
        "teratogen",
        tests="seizures 1-9 in the last quarter; sodium 140-131 mmol/l",
        procedures="EEG; MRI of the brain; epilepsy nurse review",
        advice="never miss a dose; take showers, not baths; do not climb ladders",
        related="stroke; migraine; concussion; dementia",
    ),
    condition(
        "dementia", 56, "neurology", ages=(65, 92), heritable=True,
        names="Alzheimer's disease; vascular dementia; Alzheimer's dementia; cognitive decline",
        lay="memory loss; senility",
        symptoms="forgetting names; getting lost on familiar streets; repeating questions; leaving "
        "the stove on; trouble with money",
        signs="disorientation to the date; incorrect clock drawing; pleasant, cooperative manner",
        drugs="donepezil 10 mg at night; memantine 20 mg once daily; rivastigmine patch once daily",
        tests="memory test 23-9 of 30 points",
        procedures="memory clinic assessment; MRI of the brain; carer's assessment",
        advice="label the cupboards; carry an address card; keep to a daily routine; accept day "
        "care",
        related="stroke; depression; Parkinson's disease; hearing loss",
        excludes="schizophrenia; ADHD",
    ),
    condition(
        "Parkinson's disease", 68, "neurology", ages=(55, 86),
        names="Parkinsonism; idiopathic Parkinson's disease; paralysis agitans",
        lay="the shaking palsy; shaking hands",
        symptoms="tremor of one hand at rest; small handwriting; stiffness; shuffling steps; "
        "loss of smell; freezing in doorways",
        signs="cogwheel rigidity at the wrist; reduced arm swing; masked face; pill-rolling tremor",
        drugs="co-careldopa three times daily; ropinirole 2 mg three times daily; rasagiline 1 mg "
        "once daily",
        tests="walking test 9-26 s over ten metres",
        procedures="dopamine transporter scan; physiotherapy; Parkinson's nurse visit",
        advice="take tablets at exact times; practise big steps; remove loose rugs",
        related="dementia; depression; insomnia",
    ),
    condition(
        "multiple sclerosis", 83, "neurology", ages=(20, 50),
        names="relapsing-remitting multiple sclerosis; MS; demyelinating disease",
        lay="nerve sheath disease; MS attacks",
        symptoms="numbness from the waist down; blurred vision in one eye; tiredness in the heat; "
        "electric feeling down the back; weak legs",
        signs="pale optic disc on the right; brisk leg reflexes; impaired heel-toe walking",
        drugs="dimethyl fumarate 240 mg twice daily; ocrelizumab infusion twice a year; "
        "teriflunomide 14 mg once daily|teratogen",
        tests="disability scale 1.0-6.0 points; vitamin D 68-22 nmol/l",
        procedures="MRI of brain and spine; lumbar puncture; visual evoked potentials",
        advice="pace activities; keep cool in summer; report new numbness lasting over a day",
        related="depression; urinary incontinence; migraine",
    ),
    condition(
        "carpal tunnel syndrome", 47, "neurology", ages=(28, 75),
        names="median nerve entrapment; CTS; median neuropathy at the wrist",
        lay="trapped nerve in the wrist; numb hands at night",
        symptoms="tingling in thumb and index finger; numb fingers at night; dropping cups; "
        "shaking "
        "the hand for relief",
        signs="positive Phalen test; mild thenar wasting; positive Tinel sign at the wrist",
        drugs="wrist splint at night; triamcinolone injection at the wrist",
        tests="nerve conduction delay 4.2-7.1 ms",
        procedures="nerve conduction study; carpal tunnel release; hand therapy",
        advice="rest the wrist when it tingles; change grip often at work",
        related="hypothyroidism; rheumatoid arthritis; type 2 diabetes; pregnancy",
    ),
    condition(
        "concussion", 75, "neurology", chronic=False, ages=(6, 85),
        names="mild traumatic brain injury; minor head injury; commotio cerebri",
        lay="knock on the head; bang on the head",
        symptoms="headache after a blow; feeling foggy; vomiting once; dislike of noise; brief "
        "memory gap",
        signs="scalp bruise over the temple; equal reactive pupils; full orientation in time and "
        "place",
        drugs="paracetamol 1 g up to four times daily|adult; "
        "paracetamol suspension by weight|child",
        tests="Glasgow coma scale 15-14 points",
        procedures="CT scan of the head; head injury observation",
        advice="rest for two days; no contact sport for three weeks; return at once with repeated "
        "vomiting",
        related="migraine; positional vertigo; epilepsy",
    ),
    condition(
        "positional vertigo", 81, "audiology", chronic=False, ages=(35, 90),
        names="benign paroxysmal positional vertigo; BPPV; labyrinthine vertigo",
        lay="the room spinning; dizzy spells",
        symptoms="spinning on turning in bed; nausea when looking up; unsteadiness; dizziness for "
        "seconds",
        signs="rotatory nystagmus on Dix-Hallpike testing; normal hearing; normal coordination",
        drugs="betahistine 16 mg three times daily; cinnarizine 15 mg as needed",
        procedures="Epley manoeuvre; hearing test",
        advice="rise slowly from bed; repeat the head exercises; do not drive while dizzy",
        related="hearing loss; migraine; concussion",
    ),
)  # fmt: skip
